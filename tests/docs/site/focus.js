// What scrolls sideways can be scrolled with the keyboard, too: tables and code. What is hidden from readers is no stop of the keyboard.
const reach = () => {
  document.querySelectorAll(".md-typeset__scrollwrap, .md-typeset pre > code").forEach((one) => { one.tabIndex = 0; });
  document.querySelectorAll("input.md-option[aria-hidden]").forEach((one) => { one.tabIndex = -1; });
};
new MutationObserver(reach).observe(document.documentElement, {childList: true, subtree: true});
addEventListener("DOMContentLoaded", reach);
