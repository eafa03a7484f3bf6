"""Which maintained views a text may read: by its words, through plain views, macros and EXECUTE."""

from __future__ import annotations

from itertools import islice, pairwise

from tidewheel.engine.quoting import parts_of_key, quoted
from tidewheel.sql import errors, foreign_views, functions, introspection, run_texts, view_text
from tidewheel.sql.reads import Names
from tidewheel.sql.statements import tokens
from tidewheel.sql.view_past import Past
from tidewheel.sql.view_registry import row_name

_CHANGES = {"INSERT", "UPDATE", "DELETE", "MERGE"}
_QUERIES = {"SELECT", "FROM", "WITH"}


class Naming(Past):
    """What a text's words mean among the views."""

    def needed(self, text: str) -> list[str]:
        """The views that a text may read, through plain views and macros; inputs first."""
        wanted = self._wanted(text)
        return [v.key for v in self._maintainer.ordered() if v.key in wanted] if wanted else []

    def _wanted(self, text: str) -> set[str]:
        """Keys of views that a text may read, and the functions of `introspection`."""
        self._forget_dropped()
        if executed := self.executed(text):
            text = f"{text} {executed}"
        wanted = set(introspection.named(text))
        version, words = self._words
        if not self._maintainer.views and not any(
            introspection.FUNCTIONS & read for read in words.values()
        ):
            return wanted  # (a plain view over a function of ours has no rows now)
        if version != self.database.catalog_version:
            words = self._word_index()
            self._words = (self.database.catalog_version, words)
        named = run_texts.words(text)
        for word in words if named is None else named:
            wanted |= words.get(word, frozenset())
        return wanted

    def _forget_dropped(self) -> None:
        """Let go of the rows of views that another connection has dropped."""
        version = self.database.catalog_version
        if self._swept == version or self.implicit or self.host.in_transaction:
            return
        self._swept = version
        tokens = {view.token for view in self._maintainer.views.values()}
        for token in [*self._registered]:
            if token not in tokens:
                del self._registered[token]
                self.host.connection.unregister(row_name(token))

    def executed(self, text: str) -> str:
        """The PREPARE of what an EXECUTE runs; empty for any other text."""
        parts = list(islice(tokens(text), 12)) if self._prepared else []
        if not parts or parts[0].text.upper() not in ("EXECUTE", "EXPLAIN"):
            return ""
        names = [b for a, b in pairwise(parts) if a.text.upper() == "EXECUTE"]
        return self._prepared.get(view_text.prepared_name(names[0]), "") if names else ""

    def _word_index(self) -> dict[str, frozenset[str]]:
        """Per name in lower case, the views that a text with this name may read."""
        names = self._names()
        self._foreign = self._maintained_elsewhere(names)
        keys = self._keys() | self._foreign
        words: dict[str, frozenset[str]] = {}
        running = set(run_texts.RUNNERS)
        for key in keys:
            name = parts_of_key(key)[-1]
            words[name] = words.get(name, frozenset()) | {key}
        for relation in names.relations:
            ours = relation.key in keys or relation.name.startswith(row_name(""))
            if relation.kind == "view" and not ours:
                word = relation.name.lower()
                read = keys & set(names.reads(f"FROM {relation.quoted}", keys))
                read |= set(introspection.named(names.sql(relation)))
                if run_texts.runs_texts(names.sql(relation)):
                    running.add(word)
                    read |= keys
                if read:
                    words[word] = words.get(word, frozenset()) | read
        for macro, definitions in names.macros.items():
            read = keys & {key for text in definitions for key in names.reads(text, keys)}
            if any(map(run_texts.runs_texts, definitions)):
                running.add(macro)
                read = keys
            if read:
                words[macro] = words.get(macro, frozenset()) | read
        self._running = frozenset(running)
        return words

    def _maintained_elsewhere(self, names: Names) -> frozenset[str]:
        """Maintained views of attached databases: those of a copied file name the same rows."""
        ours = self._keys()  # whose queries DuckDB need not write
        others = (r for r in names.relations if r.key not in ours)
        return frozenset(r.key for r in others if foreign_views.is_one(r, names))

    def _refuse_foreign(self, text: str) -> None:
        names = Names(self.host.connection)
        read = names.reads(text, self._keys() | self._foreign)
        for key in sorted(self._foreign & set(read)):
            raise foreign_views.error(self.host.connection, read[key], names)

    def foreign(self, rows: str) -> errors.Error | None:
        """The error about rows that DuckDB did not find, if a view of another database has them.

        (Where a session has no views of its own, nobody has looked for those of others.)
        """
        with self.host.connection.cursor() as apart:  # the transaction may have failed
            names = Names(apart)
            for key in sorted(self._maintained_elsewhere(names)):
                relation = next(r for r in names.relations if r.key == key)
                if quoted(rows) in names.sql(relation):
                    return foreign_views.error(apart, relation, names)
        return None

    def _read(self, text: str, wanted: set[str]) -> set[str]:
        """Those of `wanted` that are read, and no columns called like a view.

        Looked at more closely where the rows of a view may be of no use to later statements.
        """
        word = next((t.text.upper() for t in tokens(text)), "")
        if not (word in _CHANGES or (word in _QUERIES and self.host.in_transaction)):
            return wanted
        if wanted <= introspection.FUNCTIONS:
            return wanted
        if not self._running.isdisjoint(view_text.names_of(tokens(text))):
            return wanted
        keys = self._keys() | self._foreign
        return wanted & (introspection.FUNCTIONS | self._names().reads(text, keys).keys())

    def reads_views_alone(self, text: str) -> bool:
        """Does a query surely read no table, and nothing that depends on tables but these views?"""
        others, found = self._other_names(), list(tokens(text))
        if not found or found[0].text.upper() not in _QUERIES or "$$" in text:
            return False
        names = {view_text.unquoted(token).lower() for token in found}
        # a text may name a table, too; E'…' may be any name
        plain = all(token.kind != "string" or token.text[0] in "\"'" for token in found)
        return plain and others.isdisjoint(names) and functions.is_steady(text)

    def _other_names(self) -> frozenset[str]:
        """What is called in the catalog and no maintained view, in lower case."""
        version = self.host.version
        if self._others[0] != version:
            names, keys = self._names(), self._keys()
            others = {r.name.lower() for r in names.relations if r.key not in keys}
            self._others = version, frozenset(others | names.internal | names.macros.keys())
        return self._others[1]
