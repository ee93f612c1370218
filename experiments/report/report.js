"use strict";
// Each figure is drawn twice; on a phone the drawing made for it takes the place of the wide one.
const phone = window.matchMedia("screen and (max-width: 720px)");
const figures = [...document.querySelectorAll("figure[data-figure]")].map((figure) => ({
  place: figure.querySelector(".drawing"),
  wide: figure.querySelector(".drawing > svg"),
  narrow: figure.querySelector("template").content.firstElementChild,
}));
const choose = () => {
  for (const { place, wide, narrow } of figures) {
    place.replaceChildren(phone.matches ? narrow : wide);
  }
};
phone.addEventListener("change", choose);
choose();
