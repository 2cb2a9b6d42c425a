// What scrolls sideways can be scrolled with the keyboard, too: tables and code.
const reach = () => document.querySelectorAll(".md-typeset__scrollwrap, .md-typeset pre > code").forEach((one) => { one.tabIndex = 0; });
new MutationObserver(reach).observe(document.documentElement, {childList: true, subtree: true});
addEventListener("DOMContentLoaded", reach);
