"""A label's metadata: identity, version, type, date, labeler and products."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from typing import Any

from fdarx_core.labels.xml import CODE, TITLE, BadDocument, Element, children, clean, raw_text
from fdarx_core.records import Product

SUBJECT = "subject"
_LABELER = "author/assignedEntity/representedOrganization/name"
_NAME, _FORM, _ROUTE, _ID, _APPROVAL = "name", "formCode", "routeCode", "id", "approval"
_PRODUCTS = frozenset(  # the Medicine names are those of the schema before 2006
    ("manufacturedProduct", "manufacturedMedicine", "partProduct", "partMedicine")
)
_SUBSTANCES = frozenset(("ingredientSubstance", "activeIngredientSubstance"))
_MOIETY, _GENERIC, _INGREDIENT = "activeMoiety", "genericMedicine", "ingredient"
_SUFFIX = "suffix"
_PACKAGES = ("containerPackagedProduct", "containerPackagedMedicine")
_GENERIC_NAMES = f"*/{_GENERIC}/name"
_NAME_FIELDS = {
    **dict.fromkeys(_PRODUCTS, "brands"),
    _GENERIC: "generics",
    **dict.fromkeys(_SUBSTANCES, "substances"),
    _MOIETY: "moieties",
}
_NDC_SYSTEM, _UNII_SYSTEM = "2.16.840.1.113883.6.69", "2.16.840.1.113883.4.9"


@dataclass(slots=True)
class Header:
    """The document's own header fields, as in `Label`."""

    set_id: str
    version: int
    effective_date: str
    document_type: str
    document_type_name: str
    title: str
    labeler: str


def read_header(root: Element) -> Header:
    """Return the header. Only direct children of the root count: a relatedDocument has a set id of its own.

    Raises:
        BadDocument: no_set_id.
    """
    own = {child.tag: child for child in reversed(root)}
    set_id = _attribute(own, "setId", "root").lower()
    if not set_id:
        raise BadDocument("no_set_id", "the document has no <setId root=…>")
    title = own.get(TITLE)
    labeler = root.find(_LABELER)
    version = _attribute(own, "versionNumber", "value")
    return Header(
        set_id=set_id,
        version=int(version) if version.isdecimal() and len(version) < 10 else 0,
        effective_date=_iso_date(_attribute(own, "effectiveTime", "value")),
        document_type=_attribute(own, "code", "code"),
        document_type_name=_attribute(own, "code", "displayName"),
        title="" if title is None else clean(raw_text(title)),
        labeler="" if labeler is None else clean(raw_text(labeler)),
    )


def _attribute(own: dict[str, Element], child: str, name: str) -> str:
    element = own.get(child)
    return "" if element is None else clean(element.get(name) or "")


def _iso_date(value: str) -> str:
    day = value[:8]
    if not (day.isascii() and day.isdecimal()):
        return ""
    try:
        return date(int(day[:4]), int(day[4:6]), int(day[6:] or 0)).isoformat()
    except ValueError:
        return ""


_LISTED = ("uniis", "routes", "dosage_forms", "ndcs", "marketing_categories", "application_numbers")


def read_products(subjects: Iterable[Element]) -> dict[str, Any]:
    """Return the fields of `Label` on the products of `<subject>` elements, parts of kits included.

    Of all products together, each value is there once, in the order of the file.
    """
    found: defaultdict[str, dict[str, None]] = defaultdict(dict)
    products: list[Product] = []
    for subject in subjects:
        products += [
            _product(one) for one in subject.iter(*_PRODUCTS) if _PRODUCTS.isdisjoint(child.tag for child in one)
        ]
        for element in subject.iter(*_NAME_FIELDS, *_PACKAGES, _FORM, _ROUTE, _APPROVAL):
            for name, value in _values(element):
                if value and (text := clean(value)):
                    found[name][text] = None
    substances = [*found["substances"], *found["moieties"]]
    aliases: dict[str, str] = {}  # distinct without case
    for name in (*found["brands"], *found["generics"], *substances):
        aliases.setdefault(name.casefold(), name)
    listed = {name: list(found[name]) for name in _LISTED}
    names = {"aliases": list(aliases.values()), "substances": list(dict.fromkeys(substances))}
    return {**listed, **names, "products": products}


def _product(element: Element) -> Product:
    names = (*element.iterfind(_NAME), *element.iterfind(_GENERIC_NAMES))
    product = Product(names=list(dict.fromkeys(filter(None, map(_product_name, names)))))
    rows: dict[tuple[str, str, str, str], None] = {}
    for substance in filter(_is_active, element.iter(*_SUBSTANCES)):
        own = _name_and_unii(substance)
        outer = substance.iterchildren(_MOIETY)
        moieties = [_name_and_unii(moiety) for one in outer for moiety in one.iterchildren(_MOIETY)]
        rows |= {(*own, *moiety): None for moiety in moieties or [("", "")]}
    for name, unii, moiety_name, moiety_unii in rows:
        product.substances.append(name)
        product.substance_uniis.append(unii)
        product.moieties.append(moiety_name)
        product.moiety_uniis.append(moiety_unii)
    return product


def _product_name(name: Element) -> str:
    """Return a name with its suffix as another word, "Plegridy Pen", unless the suffix begins with a sign."""
    for suffix in name.iterchildren(_SUFFIX):
        if (suffix.text or "").strip()[:1].isalnum():
            suffix.text = f" {suffix.text}"
    return clean(raw_text(name))


def _name_and_unii(element: Element) -> tuple[str, str]:
    """Return the name and the UNII of a substance or moiety, "" where the file does not give them."""
    own = {child.tag: child for child in reversed(children(element))}
    name, code = own.get(_NAME), own.get(CODE)
    unii = "" if code is None or code.get("codeSystem") != _UNII_SYSTEM else code.get("code") or ""
    return "" if name is None else clean(raw_text(name)), clean(unii)


def _values(element: Element) -> list[tuple[str, str | None]]:
    """Return what an element says about a product: names of fields of `Label`, or of kinds of names, with values."""
    tag = element.tag
    if tag in (_FORM, _ROUTE):
        if (parent := element.getparent()) is not None and parent.tag in _PACKAGES:
            return []  # the form of a package: a bottle
        return [("dosage_forms" if tag == _FORM else "routes", element.get("displayName"))]
    if tag == _APPROVAL:
        code, identifier = element.find(CODE), element.find(_ID)
        category = None if code is None else code.get("displayName")
        number = None if identifier is None else identifier.get("extension")
        return [("marketing_categories", category), ("application_numbers", number)]
    is_substance = tag in _SUBSTANCES
    if is_substance and not _is_active(element):
        return []
    system, field_of_code = (_UNII_SYSTEM, "uniis") if is_substance or tag == _MOIETY else (_NDC_SYSTEM, "ndcs")
    values: list[tuple[str, str | None]] = []
    for child in children(element):
        if child.tag == CODE and child.get("codeSystem") == system:
            values.append((field_of_code, child.get("code")))
        elif child.tag == _NAME and tag in _NAME_FIELDS:
            values.append((_NAME_FIELDS[tag], _product_name(child)))
    return values


def _is_active(substance: Element) -> bool:
    ingredient = substance.getparent()
    if ingredient is None or ingredient.tag != _INGREDIENT:
        return ingredient is not None
    return (ingredient.get("classCode") or "").startswith("ACTI")
