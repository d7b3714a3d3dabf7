"""What a label says of its products: names, substances, routes, forms, packages, marketing."""

from __future__ import annotations

from dataclasses import dataclass, field

from fdarx_core.labels.inline import clean, raw_text
from fdarx_core.labels.xml import NS, Element

SUBJECT = NS + "subject"
_NAME, _CODE, _FORM, _ROUTE = NS + "name", NS + "code", NS + "formCode", NS + "routeCode"
_ID, _APPROVAL = NS + "id", NS + "approval"
_PRODUCTS = frozenset(
    # the Medicine names are those of the schema before 2006
    NS + name
    for name in ("manufacturedProduct", "manufacturedMedicine", "partProduct", "partMedicine")
)
_SUBSTANCES = frozenset(NS + name for name in ("ingredientSubstance", "activeIngredientSubstance"))
_MOIETY, _GENERIC, _INGREDIENT = NS + "activeMoiety", NS + "genericMedicine", NS + "ingredient"
_NDC_SYSTEM, _UNII_SYSTEM = "2.16.840.1.113883.6.69", "2.16.840.1.113883.4.9"


@dataclass(slots=True)
class Products:
    """Values of all products of a label, each once, in the order in which the file gives them."""

    brands: list[str] = field(default_factory=list)
    generics: list[str] = field(default_factory=list)
    substances: list[str] = field(default_factory=list)
    moieties: list[str] = field(default_factory=list)
    uniis: list[str] = field(default_factory=list)
    routes: list[str] = field(default_factory=list)
    forms: list[str] = field(default_factory=list)
    ndcs: list[str] = field(default_factory=list)
    categories: list[str] = field(default_factory=list)
    applications: list[str] = field(default_factory=list)

    @property
    def aliases(self) -> list[str]:
        """All names the label's text may use for the drug, the product's own first, compared without case."""
        first: dict[str, str] = {}
        for name in (*self.brands, *self.generics, *self.substances, *self.moieties):
            first.setdefault(name.casefold(), name)
        return list(first.values())


def read_products(root: Element) -> Products:
    """The products of every `<subject>` of the document, parts of kits included."""
    products = Products()
    for subject in root.iter(SUBJECT):
        for element in subject.iter(_NAME, _CODE, _FORM, _ROUTE, _APPROVAL):
            _take(element, products)
    for name in ("brands", "generics", "substances", "moieties", "uniis", "routes", "forms", "ndcs", "categories"):
        setattr(products, name, list(dict.fromkeys(getattr(products, name))))
    products.applications = list(dict.fromkeys(products.applications))
    return products


def _take(element: Element, products: Products) -> None:
    tag, parent = element.tag, element.getparent()
    if parent is None:
        return
    if tag == _NAME:
        _take_name(element, parent, products)
    elif tag == _FORM:
        _add(products.forms, element.get("displayName"))
    elif tag == _ROUTE:
        _add(products.routes, element.get("displayName"))
    elif tag == _CODE:
        _take_code(element, parent, products)
    else:
        _take_approval(element, products)


def _take_name(element: Element, parent: Element, products: Products) -> None:
    if parent.tag in _PRODUCTS:
        _add(products.brands, raw_text(element))
    elif parent.tag == _GENERIC:
        _add(products.generics, raw_text(element))
    elif parent.tag == _MOIETY:
        _add(products.moieties, raw_text(element))
    elif parent.tag in _SUBSTANCES and _is_active(parent):
        _add(products.substances, raw_text(element))


def _is_active(substance: Element) -> bool:
    ingredient = substance.getparent()
    if ingredient is None or ingredient.tag != _INGREDIENT:
        return ingredient is not None
    return (ingredient.get("classCode") or "").startswith("ACTI")


def _take_code(element: Element, parent: Element, products: Products) -> None:
    system = element.get("codeSystem")
    if system == _NDC_SYSTEM and parent.tag.endswith(("Product", "Medicine", "PackagedMedicine")):
        _add(products.ndcs, element.get("code"))
    elif system == _UNII_SYSTEM and (parent.tag == _MOIETY or (parent.tag in _SUBSTANCES and _is_active(parent))):
        _add(products.uniis, element.get("code"))


def _take_approval(element: Element, products: Products) -> None:
    code, identifier = element.find(_CODE), element.find(_ID)
    if code is not None:
        _add(products.categories, code.get("displayName"))
    if identifier is not None:
        _add(products.applications, identifier.get("extension"))


def _add(values: list[str], value: str | None) -> None:
    text = clean(value or "")
    if text:
        values.append(text)
