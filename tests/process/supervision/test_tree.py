"""The tree as data and as a drawing."""

import pytest

from router.process.supervision import Child, Intensity, Restart, Strategy, Supervisor, draw


async def nothing() -> None: ...


def test_the_drawing_shows_every_node_with_its_rule() -> None:
    lanes = Supervisor(
        "consumers",
        (Child("decide", nothing, shutdown_s=15), Child("results", nothing, Restart.TRANSIENT)),
        Strategy.REST_FOR_ONE,
    )
    tree = Supervisor(
        "router",
        (Child("http", nothing), lanes, Child("reload", nothing, Restart.TEMPORARY, 0.5)),
        intensity=Intensity(5, 60),
    )
    assert draw(tree).splitlines() == [
        "router  one_for_one, 5 restarts in 60 s",
        "├── http  permanent, 5 s to stop",
        "├── consumers  rest_for_one, 3 restarts in 10 s",
        "│   ├── decide  permanent, 15 s to stop",
        "│   └── results  transient, 5 s to stop",
        "└── reload  temporary, 0.5 s to stop",
    ]


def test_two_children_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match="same name"):
        Supervisor("root", (Child("a", nothing), Child("a", nothing)))
