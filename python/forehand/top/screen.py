"""The screen of `forehand top`: one view at a time, and keys.

Knows: Textual. Does not know: where numbers come from. A thread looks at the server, so that keys are heard though
it does not answer.
"""

from __future__ import annotations

import time
from typing import Any, ClassVar, Literal

from rich.cells import cell_len
from rich.text import Text
from textual import work
from textual.app import App, ComposeResult, ScreenStackError
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.css.query import NoMatches
from textual.events import Key
from textual.screen import ModalScreen
from textual.widgets import DataTable, Footer, Static, Tab, Tabs

from forehand.errors import Problem
from forehand.top import numbers
from forehand.top.findings import findings
from forehand.top.numbers import Between, Look
from forehand.top.tables import VIEWS, Cells, View, headline
from forehand.top.words import folded, printable

#: Of what is wrong so many lines are shown: on a terminal of 24 the table has the most.
MOST_FINDINGS = 3
HELP = """\
1 2 3 4 5   routes, workers, requests inside, slow and failed ones, limits
tab         the next view
s           sort by the next column
r           the other way round
space       stand still, and go on
arrows      through the rows, and to columns that have no room
q           the end

share    how much of all time in the application a route took
cpu      how much of its time was spent on a processor
mostly   the phase that took most of a request (docs/looking-inside.md)

Rates and shares are of the time since the last look. No worker is asked.
Any key closes this.
"""


class Help(ModalScreen[None]):
    """What the keys do."""

    def compose(self) -> ComposeResult:
        with VerticalScroll():
            yield Static(HELP, markup=False)

    def on_key(self, event: Key) -> None:
        """Any key closes it, and does nothing else."""
        event.stop()
        event.prevent_default()
        self.dismiss()


class Top(App[None]):
    """The whole. `first`: a look that was taken already."""

    ENABLE_COMMAND_PALETTE = False
    CSS = """
    #head { height: auto; max-height: 4; padding: 0 1; }
    #wrong { height: auto; max-height: 4; padding: 0 1; }
    #wrong.bad { color: $error; text-style: bold; }
    #none { padding: 1; height: auto; }
    DataTable { height: 1fr; }
    Help { align: center middle; }
    Help VerticalScroll {
        width: 78; height: auto; max-height: 90%; border: round $primary; background: $surface; padding: 0 1;
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        *(Binding(str(n), f"show('{view.name}')", view.title, show=False) for n, view in enumerate(VIEWS, 1)),
        Binding("tab", "next_view", "View", priority=True),
        Binding("s", "sort", "Sort"),
        Binding("r", "reverse", "Reverse"),
        Binding("space", "pause", "Pause", priority=True),
        Binding("question_mark", "help", "Help"),
        Binding("q", "quit", "Quit"),
    ]

    def __init__(self, path: str, every: float, first: Look) -> None:
        super().__init__()
        self.path = path
        self.every = every
        self.now, self.came = first, numbers.between(first, first)
        self.view: View = VIEWS[0]
        #: By view: the column that it is sorted by, and whether the other way round; None: as it comes.
        self.order: dict[str, tuple[int | None, bool]] = {}
        self.paused = False
        self.gone = ""

    def compose(self) -> ComposeResult:
        yield Static(id="head", markup=False)
        yield Static(id="wrong", markup=False)
        yield Tabs(*(Tab(f"{n} {view.title}", id=view.name) for n, view in enumerate(VIEWS, 1)))
        yield Static(id="none", markup=False)
        yield DataTable(cursor_type="row", zebra_stripes=True)
        yield Footer()

    def on_mount(self) -> None:
        """It begins."""
        self.title = "forehand top"
        self.query_one(Tabs).can_focus = False
        self.query_one(DataTable).focus()
        self._draw()
        self.set_interval(self.every, self._look)
        # What has come since the first look is known soon.
        self.set_timer(min(self.every, 0.5), self._look)

    @work(thread=True, exclusive=True)
    def _look(self) -> None:
        if self.paused:
            return
        try:
            now, gone = numbers.look(self.path), ""
        except Problem as problem:
            now, gone = self.now, str(problem.args[0])
        except OSError as error:
            now, gone = self.now, str(error)
        self.call_from_thread(self._take, now, gone)

    def _take(self, now: Look, gone: str) -> None:
        if self.paused:
            return
        if not gone and now.at > self.now.at:
            again = now.status["pid"] != self.now.status["pid"] or now.totals["requests"] < self.now.totals["requests"]
            # Another server, or the same one started anew: its numbers are no sequel.
            self.came = numbers.between(now, now if again else self.now)
            self.now = now
        if gone and not self.gone:
            gone = f"no answer since {time.strftime('%H:%M:%S')}: {gone}"
        self.gone = gone and (self.gone or gone)
        try:
            self._draw()
        except (NoMatches, ScreenStackError):
            # It was ended while somebody looked: there is no screen any more.
            pass

    def _draw(self) -> None:
        now, came = self.now, self.came
        head = headline(now, came)
        if self.paused:
            head[0] += "  PAUSED"
        lines = [short for line in head for short in folded(printable(line), self.size.width - 2)]
        self.query_one("#head", Static).update("\n".join(lines))
        wrong = [self.gone] if self.gone else [printable(line) for line in findings(now, came)]
        more = [f"and {len(wrong) - MOST_FINDINGS} more"] if len(wrong) > MOST_FINDINGS else []
        shown = self.query_one("#wrong", Static)
        shown.set_class(bool(wrong), "bad")
        shown.update(
            "\n".join([*(f"! {line}" for line in wrong[:MOST_FINDINGS]), *more]) or "nothing is wrong that shows here"
        )
        self._fill(now, came)

    def _fill(self, now: Look, came: Between) -> None:
        table: DataTable[Text] = self.query_one(DataTable)
        rows = self._sorted(self.view.rows(now, came))
        row, scroll = table.cursor_row, (table.scroll_x, table.scroll_y)
        column, _ = self.order.get(self.view.name, (None, False))
        table.clear(columns=True)
        sides: list[Literal["left", "right"]] = ["right" if one.right else "left" for one in self.view.columns]
        titles = [one.title + ("*" if place == column else "") for place, one in enumerate(self.view.columns)]
        shown = [[c.shown(value) for c, value in zip(self.view.columns, values, strict=True)] for values in rows]
        # What the table measures by itself it draws at the next look only: until then all is as narrow as its title.
        widths = [max(map(cell_len, texts)) for texts in zip(titles, *shown, strict=True)]
        for title, side, width in zip(titles, sides, widths, strict=True):
            table.add_column(Text(title, justify=side), width=width)
        for texts in shown:
            table.add_row(*(Text(text, justify=side) for text, side in zip(texts, sides, strict=True)))
        table.move_cursor(row=min(row, max(0, len(rows) - 1)), scroll=False)
        table.scroll_to(*scroll, animate=False)
        none = self.query_one("#none", Static)
        none.display = not rows
        none.update(self.view.none)

    def _sorted(self, rows: list[Cells]) -> list[Cells]:
        column, back = self.order.get(self.view.name, (None, False))
        if column is None:
            return rows[::-1] if back else rows
        place, numeric = column, self.view.columns[column].right

        def key(row: Cells) -> Any:
            # What is not known is less than any number.
            return -1 if row[place] is None else row[place]

        return sorted(rows, key=key, reverse=numeric != back)

    def on_resize(self) -> None:
        """Words that stand together fit in another number of lines."""
        try:
            self._draw()
        except (NoMatches, ScreenStackError):
            # There is no screen yet, or help lies above it.
            pass

    def on_tabs_tab_activated(self, event: Tabs.TabActivated) -> None:
        """Another view was chosen, by key or mouse."""
        self.view = next(view for view in VIEWS if view.name == event.tab.id)
        self._draw()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool:
        """Behind the help keys do nothing, those included that come here first."""
        return action == "quit" or not isinstance(self.screen, Help)

    def action_show(self, name: str) -> None:
        """Another view."""
        self.query_one(Tabs).active = name

    def action_next_view(self) -> None:
        """The view behind this one."""
        self.action_show(VIEWS[(VIEWS.index(self.view) + 1) % len(VIEWS)].name)

    def action_sort(self) -> None:
        """By the next column, and behind the last as it comes."""
        column, back = self.order.get(self.view.name, (None, False))
        following = 0 if column is None else column + 1
        self.order[self.view.name] = (following if following < len(self.view.columns) else None, back)
        self._draw()

    def action_reverse(self) -> None:
        """The other way round."""
        column, back = self.order.get(self.view.name, (None, False))
        self.order[self.view.name] = (column, not back)
        self._draw()

    def action_pause(self) -> None:
        """Stand still, or go on."""
        self.paused = not self.paused
        self._draw()
        self._look()

    def action_help(self) -> None:
        """What the keys do."""
        self.push_screen(Help())
