"""The closed lists of properties of every JSON 2.0 component, one table per documentation page.

Pages: open.feishu.cn/document/feishu-cards/card-json-v2-components/<group>/<page>; the page's name stands
at each table. `feishu_cards` walks a card with these.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from tests.fakes import feishu_markdown as md

if TYPE_CHECKING:  # the two modules are one grammar: this one the tables, that one the walk
    from tests.fakes.feishu_cards import Walk

Check = Callable[["Walk", object, str], None]


def _words(text: str) -> list[str]:
    return text.split()


LANGUAGES = frozenset(  # configure-multi-language-content: sixteen languages
    _words("en_us zh_cn zh_hk zh_tw ja_jp id_id vi_vn th_th pt_br es_es ko_kr de_de fr_fr it_it ru_ru ms_my")
)
INTERACTIVE = frozenset(  # component-json-v2-overview, interactive components with a name of their own
    _words(
        "button input select_static multi_select_static select_person multi_select_person "
        "date_picker picker_time picker_datetime select_img checker"
    )
)


def _kind(*kinds: type) -> Check:
    def check(walk: Walk, value: object, path: str) -> None:
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            walk.refuse(path, "parse card json err, wrong type", value)

    return check


def _one_of(*allowed: str) -> Check:
    def check(walk: Walk, value: object, path: str) -> None:
        if value not in allowed:
            walk.refuse(path, f"parse card json err, not one of {', '.join(allowed)}", value)

    return check


def _like(pattern: str) -> Check:
    compiled = re.compile(pattern)

    def check(walk: Walk, value: object, path: str) -> None:
        if not isinstance(value, str) or not compiled.fullmatch(value):
            walk.refuse(path, "parse card json err, wrong format", value)

    return check


def _whole(low: int, high: int) -> Check:
    def check(walk: Walk, value: object, path: str) -> None:
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            walk.refuse(path, f"parse card json err, not a whole number from {low} to {high}", value)

    return check


def _object(**known: Check) -> Check:
    def check(walk: Walk, value: object, path: str) -> None:
        walk.fields(value, path, known)

    return check


def _complete(item: Check, *needed: str) -> Check:
    def check(walk: Walk, value: object, path: str) -> None:
        item(walk, value, path)
        for key in needed:
            if not isinstance(value, dict) or key not in value:
                walk.refuse(path, f"parse card json err, {key} is required", "")

    return check


def _list(item: Check, most: int = 10_000) -> Check:
    def check(walk: Walk, value: object, path: str) -> None:
        if not isinstance(value, list) or len(value) > most:
            walk.refuse(path, f"parse card json err, not a list of at most {most}", value)
        for index, each in enumerate(value if isinstance(value, list) else ()):
            item(walk, each, f"{path} -> [{index}]")

    return check


def _map(item: Check) -> Check:
    def check(walk: Walk, value: object, path: str) -> None:
        for key, each in value.items() if isinstance(value, dict) else ():
            item(walk, each, f"{path} -> {key}")
        _kind(dict)(walk, value, path)

    return check


def _languages(item: Check) -> Check:
    def check(walk: Walk, value: object, path: str) -> None:
        _map(item)(walk, value, path)
        for key in value if isinstance(value, dict) else ():
            if key not in LANGUAGES:
                walk.refuse(path, "parse card json err, unknown language", key)

    return check


def _element_id(walk: Walk, value: object, path: str) -> None:
    """card-json-v2-structure: letter first, letters, digits, underscore, at most 20, unique in the card."""
    _like(r"[A-Za-z][A-Za-z0-9_]{0,19}")(walk, value, path)
    if str(value) in walk.ids:
        walk.refuse(path, "element_id is used twice", value)
    walk.ids.add(str(value))


def _markup(walk: Walk, value: object, path: str) -> None:
    """rich-text: invalid people, @all without the owner's leave and bad pictures or links fail the send."""
    text = value if isinstance(value, str) else ""
    _kind(str)(walk, value, path)
    for mention in md.mentions_of(text):
        walk.mentions.append(mention)
        if mention.in_code:
            continue
        allowed = walk.around.at_all if mention.kind == "all" else walk.around.knows_person(mention.target)
        if not allowed:
            reason = "There is an invalid user resource(at/person) in your card"
            walk.refuse(path, reason, mention.target, 100290)
    for key in md.images_of(text):
        if not walk.around.knows_image(key):
            walk.refuse(path, "card contains invalid image keys", f"image key {key}", 200570)
    for url in md.bad_links_of(text):
        walk.refuse(path, "invalid url", url)
    if md.tables_of(text) > 4:  # rich-text: at most four tables in one component
        walk.refuse(path, "more than four tables in one markdown", "")


def _plain(most: int) -> Check:
    def check(walk: Walk, value: object, path: str) -> None:
        _kind(str)(walk, value, path)
        if len(str(value)) > most:
            walk.refuse(path, f"parse card json err, more than {most} characters", len(str(value)))

    return check


def _text(*tags: str, most: int = 1_000_000, more: Mapping[str, Check] | None = None) -> Check:
    """A text element of one of `tags`; only plain_text is not parsed."""

    def check(walk: Walk, value: object, path: str) -> None:
        tag = value.get("tag") if isinstance(value, dict) else None
        content = _plain(most) if tag == "plain_text" else _markup
        known = {
            "tag": _one_of(*tags),
            "element_id": _element_id,
            "content": content,
            "i18n_content": _languages(content),
            **(more or {}),
        }
        element = walk.fields(value, path, known)
        if "tag" not in element or not {"content", "i18n_content"} & element.keys():
            walk.refuse(path, "parse card json err, tag and content are required", "")

    return check


def _component(walk: Walk, value: object, path: str) -> None:
    walk.component(value, path)


def _column(walk: Walk, value: object, path: str) -> None:
    walk.component(value, path, only="column")


def _name(walk: Walk, value: object, path: str) -> None:
    walk.name(value, path)


def _behavior(walk: Walk, value: object, path: str) -> None:
    """configuring-card-interactions: open_url with default_url, or callback with an object as value."""
    kind = value.get("type") if isinstance(value, dict) else None
    known: Mapping[str, Check] = {"type": _one_of("callback", "open_url"), "value": _kind(dict)}
    if kind == "open_url":
        known = {"type": _STRING, "default_url": _URL, "android_url": _URL, "ios_url": _URL, "pc_url": _URL}
    element = walk.fields(value, path, known)
    if ("value" if kind == "callback" else "default_url") not in element:
        walk.refuse(path, "parse card json err, incomplete behavior", kind)


def _person(walk: Walk, value: object, path: str) -> None:
    if not isinstance(value, str) or not walk.around.knows_person(value):
        reason = "There is an invalid user resource(at/person) in your card"
        walk.refuse(path, reason, value, 100290)


def _image_key(walk: Walk, value: object, path: str) -> None:
    if not isinstance(value, str) or not walk.around.knows_image(value):
        walk.refuse(path, "card contains invalid image keys", f"image key {value}", 200570)


_STRING = _kind(str)
_BOOL = _kind(bool)
_NUMBER = _kind(int, float)
_URL = _like(r"(https?://|lark://|$)\S*")
_EDGE = r"-?\d{1,2}(px)?"
_MARGIN = _like(rf"{_EDGE}( {_EDGE}){{0,3}}")
_GAP = _like(r"small|medium|large|extra_large|\d{1,2}px")
_ACROSS = _one_of("left", "center", "right")
_DOWN = _one_of("top", "center", "bottom")
_WIDTH = _like(r"default|fill|[1-9]\d{2,}px")
_PLAIN = _text("plain_text")
_SHORT = _text("plain_text", most=100)
_COMMON: dict[str, Check] = {"tag": _STRING, "element_id": _element_id, "margin": _MARGIN}
_ICON_FIELDS: dict[str, Check] = {
    "tag": _one_of("standard_icon", "custom_icon"),
    "token": _STRING,
    "color": _STRING,
    "img_key": _image_key,
}
_ICON = _object(**_ICON_FIELDS)
_CONFIRM = _complete(_object(title=_PLAIN, text=_PLAIN), "title", "text")
_BEHAVIORS = _list(_behavior)
_LINKS = _object(url=_URL, pc_url=_URL, ios_url=_URL, android_url=_URL)
_STYLED: dict[str, Check] = {"text_size": _STRING, "text_color": _STRING, "text_align": _ACROSS}
_LAYOUT: dict[str, Check] = {
    "direction": _one_of("vertical", "horizontal"),
    "padding": _MARGIN,
    "horizontal_spacing": _GAP,
    "horizontal_align": _ACROSS,
    "vertical_spacing": _GAP,
    "vertical_align": _DOWN,
    "elements": _list(_component),
}
_FIELD: dict[str, Check] = {  # what the selects, pickers and the input share
    **_COMMON,
    "name": _name,
    "required": _BOOL,
    "disabled": _BOOL,
    "width": _WIDTH,
    "behaviors": _BEHAVIORS,
    "placeholder": _SHORT,
    "confirm": _CONFIRM,
}
_OPTIONS = _list(_complete(_object(text=_PLAIN, icon=_ICON, value=_STRING), "text", "value"))
_PEOPLE = _list(_complete(_object(value=_person, icon=_ICON), "value"))
_TIPS: dict[str, Check] = {"hover_tips": _PLAIN, "disabled": _BOOL, "disabled_tips": _PLAIN}

REQUIRED: dict[str, tuple[str, ...]] = {  # "required: yes" of each page; form names have a code of their own
    "markdown": ("content", "i18n_content"),
    "div": ("text",),  # optional on its page; an empty one shows nothing
    "img": ("img_key",),
    "person": ("user_id",),
    "table": ("columns",),
    "column_set": ("columns",),
    "form": ("elements",),
    "interactive_container": ("behaviors",),
    "collapsible_panel": ("header",),
}
"""One of these must be there."""

COMPONENTS: dict[str, dict[str, Check]] = {
    # content-components/plain-text
    "div": {
        **_COMMON,
        "width": _like(r"fill|auto|\d{2,3}px"),
        "text": _text("plain_text", "lark_md", more={**_STYLED, "lines": _whole(1, 1_000)}),
        "icon": _ICON,
    },
    # content-components/rich-text, configure-multi-language-content
    "markdown": {
        **_COMMON,
        "content": _markup,
        "i18n_content": _languages(_markup),
        "text_size": _STRING,
        "text_align": _ACROSS,
        "icon": _ICON,
    },
    "hr": _COMMON,  # content-components/divider
    # content-components/image
    "img": {
        **_COMMON,
        "img_key": _image_key,
        "i18n_img_key": _languages(_image_key),
        "alt": _PLAIN,
        "title": _text("plain_text", "lark_md"),
        "corner_radius": _STRING,
        "scale_type": _one_of("crop_center", "crop_top", "fit_horizontal"),
        "size": _STRING,
        "transparent": _BOOL,
        "preview": _BOOL,
        "mode": _STRING,
        "custom_width": _STRING,
        "compact_width": _BOOL,
    },
    # content-components/user-profile
    "person": {
        **_COMMON,
        "size": _STRING,
        "user_id": _person,
        "show_avatar": _BOOL,
        "show_name": _BOOL,
        "style": _one_of("normal", "capsule"),
    },
    # content-components/chart
    "chart": {
        **_COMMON,
        "aspect_ratio": _STRING,
        "color_theme": _STRING,
        "chart_spec": _kind(dict),
        "preview": _BOOL,
        "height": _STRING,
    },
    # content-components/table
    "table": {
        **_COMMON,
        "page_size": _whole(1, 10),
        "row_height": _STRING,
        "row_max_height": _like(r"\d{2,3}px"),
        "freeze_first_column": _BOOL,
        "header_style": _object(**_STYLED, background_style=_STRING, bold=_BOOL, lines=_whole(1, 1_000)),
        "columns": _list(
            _object(
                name=_STRING,
                display_name=_STRING,
                width=_STRING,
                data_type=_one_of("text", "lark_md", "options", "number", "persons", "date", "markdown"),
                vertical_align=_DOWN,
                horizontal_align=_ACROSS,
                format=_object(symbol=_STRING, precision=_whole(0, 10), separator=_BOOL),
                date_format=_STRING,
            ),
            most=50,
        ),
        "rows": _list(_kind(dict)),
    },
    # containers/column-set
    "column_set": {
        **_COMMON,
        "horizontal_spacing": _GAP,
        "horizontal_align": _ACROSS,
        "flex_mode": _one_of("none", "stretch", "flow", "bisect", "trisect"),
        "background_style": _STRING,
        "action": _object(multi_url=_LINKS),
        "columns": _list(_column),
    },
    "column": {
        **_COMMON,
        **_LAYOUT,
        "background_style": _STRING,
        "width": _like(r"auto|weighted|\d{2,3}px"),
        "weight": _whole(1, 5),
        "action": _object(multi_url=_LINKS),
    },
    "form": {**_COMMON, **_LAYOUT, "name": _name},  # containers/form-container
    # containers/interactive-container
    "interactive_container": {
        **_COMMON,
        **_LAYOUT,
        **_TIPS,
        "width": _STRING,
        "height": _STRING,
        "background_style": _STRING,
        "has_border": _BOOL,
        "border_color": _STRING,
        "corner_radius": _STRING,
        "behaviors": _BEHAVIORS,
        "confirm": _CONFIRM,
    },
    # containers/collapsible-panel
    "collapsible_panel": {
        **_COMMON,
        **_LAYOUT,
        "expanded": _BOOL,
        "background_color": _STRING,
        "header": _object(
            title=_text("plain_text", "markdown"),
            background_color=_STRING,
            width=_one_of("fill", "auto", "auto_when_fold"),
            vertical_align=_DOWN,
            padding=_MARGIN,
            position=_STRING,
            icon=_object(**_ICON_FIELDS, size=_STRING),
            icon_position=_one_of("left", "right", "follow_text"),
            icon_expanded_angle=_NUMBER,
        ),
        "border": _object(color=_STRING, corner_radius=_STRING),
    },
    # interactive-components/button, and containers/form-container for the last three
    "button": {
        **_COMMON,
        **_TIPS,
        "type": _one_of(
            *_words("default primary danger text primary_text danger_text primary_filled danger_filled laser")
        ),
        "size": _one_of("tiny", "small", "medium", "large"),
        "width": _WIDTH,
        "text": _SHORT,
        "icon": _ICON,
        "confirm": _CONFIRM,
        "behaviors": _BEHAVIORS,
        "name": _name,
        "form_action_type": _one_of("submit", "reset"),
        "action_type": _one_of("link", "request", "multi", "form_submit", "form_reset"),
    },
    # interactive-components/input
    "input": {
        **_FIELD,
        "disabled_tips": _PLAIN,
        "default_value": _STRING,
        "i18n_default_value": _languages(_STRING),
        "max_length": _whole(1, 1_000),
        "input_type": _one_of("text", "multiline_text", "password"),
        "rows": _whole(1, 1_000),
        "auto_resize": _BOOL,
        "max_rows": _whole(1, 1_000),
        "show_icon": _BOOL,
        "label": _PLAIN,
        "label_position": _one_of("top", "left"),
        "value": _kind(str, dict),
    },
    # interactive-components/single-select-dropdown-menu
    "select_static": {
        **_FIELD,
        "type": _one_of("default", "text"),
        "initial_option": _STRING,
        "initial_index": _whole(0, 10_000),
        "options": _OPTIONS,
    },
    # interactive-components/multi-select-dropdown-menu
    "multi_select_static": {
        **_FIELD,
        "type": _one_of("default", "text"),
        "selected_values": _list(_STRING),
        "options": _OPTIONS,
    },
    # interactive-components/{single,multi}-select-user-picker
    "select_person": {
        **_FIELD,
        "type": _one_of("default", "text"),
        "initial_option": _person,
        "options": _PEOPLE,
    },
    "multi_select_person": {
        **_FIELD,
        "type": _one_of("default", "text"),
        "selected_values": _list(_person),
        "options": _PEOPLE,
    },
    # interactive-components/{date-picker,time-selector,date-time-picker}
    "date_picker": {**_FIELD, "initial_date": _STRING},
    "picker_time": {**_FIELD, "initial_time": _STRING},
    "picker_datetime": {**_FIELD, "initial_datetime": _STRING},
    # interactive-components/overflow
    "overflow": {
        **_COMMON,
        "width": _WIDTH,
        "options": _list(_object(text=_PLAIN, multi_url=_LINKS, value=_STRING)),
        "behaviors": _BEHAVIORS,
        "confirm": _CONFIRM,
    },
    # interactive-components/checker
    "checker": {
        **_COMMON,
        **_TIPS,
        "name": _name,
        "checked": _BOOL,
        "text": _text("plain_text", "lark_md", more=_STYLED),
        "overall_checkable": _BOOL,
        "button_area": _object(
            pc_display_rule=_one_of("always", "on_hover"), buttons=_list(_component, most=3)
        ),
        "checked_style": _object(show_strikethrough=_BOOL, opacity=_NUMBER),
        "padding": _MARGIN,
        "confirm": _CONFIRM,
        "behaviors": _BEHAVIORS,
    },
}
"""Not listed, so refused: person_list, img_combination, select_img, audio. They are documented, but no card
of ours has a use for them; add the page's table when one has."""


def _update_multi(walk: Walk, value: object, path: str) -> None:
    if value is not True:  # card-json-v2-structure: "JSON 2.0 supports only true"
        walk.refuse(path, "update_multi must be true", value)


_TAGS = _list(
    _object(
        tag=_one_of("text_tag"),
        element_id=_element_id,
        text=_PLAIN,
        color=_one_of(
            *_words("neutral blue turquoise lime orange violet indigo wathet green yellow red purple carmine")
        ),
    ),
    most=3,  # title: "more than three are not shown"
)
_SPEED = _map(_NUMBER)
ROOT: dict[str, Check] = {  # card-json-v2-structure, content-components/title
    "schema": _one_of("2.0"),
    "config": _object(
        streaming_mode=_BOOL,
        streaming_config=_object(
            print_frequency_ms=_SPEED, print_step=_SPEED, print_strategy=_one_of("fast", "delay")
        ),
        summary=_object(content=_STRING, i18n_content=_languages(_STRING)),
        locales=_list(_one_of(*LANGUAGES)),
        enable_forward=_BOOL,
        update_multi=_update_multi,
        width_mode=_one_of("default", "compact", "fill"),
        use_custom_translation=_BOOL,
        enable_forward_interaction=_BOOL,
        style=_object(text_size=_map(_map(_STRING)), color=_map(_map(_STRING))),
    ),
    "card_link": _LINKS,
    "header": _object(
        title=_text("plain_text", "lark_md"),
        subtitle=_text("plain_text", "lark_md"),
        text_tag_list=_TAGS,
        i18n_text_tag_list=_languages(_TAGS),
        template=_one_of(
            *_words("blue wathet turquoise green yellow orange red carmine violet purple indigo grey default")
        ),
        icon=_ICON,
        padding=_MARGIN,
    ),
    "body": _object(**_LAYOUT),
}
