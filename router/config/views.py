"""How the settings are shown: in a terminal, as JSON, in the console."""

from router.shell.view import View, ViewColumn

SETTINGS = View(
    ViewColumn("setting", label="Setting", of="name", kind="id"),
    ViewColumn("value", label="Value", kind="prose"),
    ViewColumn("source", label="From"),
    ViewColumn("meaning", label="Meaning", of="description", kind="prose"),
    fields=lambda setting: setting._asdict(),
)
