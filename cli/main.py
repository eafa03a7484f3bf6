"""The command line: `tidewheel run`, `check`, `tpch`, and the shell as what is meant otherwise."""

from __future__ import annotations

import difflib
import os
import sys
from importlib import import_module
from typing import Any

import click

from .run import run

# Commands whose modules are heavy: name → (module, attribute, what --help says).
_LAZY = {
    "check": ("tidewheel.cli.check", "check", "Run a query here and on Spark, and compare."),
    "shell": ("tidewheel.cli.shell", "shell", "The interactive shell."),
    "tpch": ("tidewheel.tpch.main", "tpch", "Generate TPC-H data and run its queries."),
}
_RUN_OPTIONS = ("-c", "-f", "-o", "-p")
_SHELL_OPTIONS = {"--init", "--no-init", "--threads", "--readonly", "--safe"}


class _Main(click.Group):
    """Commands that are imported when they are called; without one it is `run` or `shell`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*super().list_commands(ctx), *_LAZY})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in _LAZY:
            module, attribute, _ = _LAZY[cmd_name]
            try:
                command: click.Command = getattr(import_module(module), attribute)
            except ModuleNotFoundError as error:
                if error.name is None or not error.name.startswith("tidewheel"):
                    raise click.ClickException(
                        f"`tidewheel {cmd_name}` needs the package {error.name}"
                    ) from None
                return None
            return command
        return super().get_command(ctx, cmd_name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        rows = []
        for name in self.list_commands(ctx):
            command = super().get_command(ctx, name)
            rows.append((name, command.get_short_help_str() if command else _LAZY[name][2]))
        with formatter.section("Commands"):
            formatter.write_dl(rows)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        commands = self.list_commands(ctx)
        if not args or args[0] not in (*commands, "--help", "--version"):
            if args and not os.path.exists(args[0]) and args[0].isalpha():
                close = difflib.get_close_matches(args[0], commands, n=1, cutoff=0.6)
                if close:
                    ctx.fail(f"No such command '{args[0]}'. Did you mean '{close[0]}'?")
            options = {a.partition("=")[0] for a in args if a.startswith("--")}
            short = any(a == "-" or a.startswith(_RUN_OPTIONS) for a in args)
            is_run = short or not options <= _SHELL_OPTIONS
            args = ["run" if is_run else "shell", *args]
        return super().parse_args(ctx, args)


def _version(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted:
        import duckdb

        from tidewheel import __version__

        click.echo(f"tidewheel {__version__} (DuckDB {duckdb.__version__})")
        ctx.exit()


@click.group(cls=_Main, context_settings={"max_content_width": 100})
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_version,
    help="Versions.",
)
def cli() -> None:
    """Tidewheel: an embedded SQL engine whose answers stay current.

    \b
    tidewheel -c "SELECT 42"          runs a statement
    tidewheel run sales.db -f q.sql   runs a file on a database
    tidewheel sales.db                opens the shell on a database
    """


cli.add_command(run)


def main(args: list[str] | None = None) -> Any:
    """The entry point: exit code 0, 1 after an error, 2 for wrong usage, 130 after Ctrl-C."""
    try:  # NO_COLOR: see no-color.org
        colour = False if os.environ.get("NO_COLOR") else None
        return cli.main(args, prog_name="tidewheel", color=colour)
    except BrokenPipeError:
        # The reader has gone (`| head`): end quietly, and let the interpreter flush nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
