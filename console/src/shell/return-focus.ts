/**
 * Gives the focus back to what opened a dialog, once no dialog is left. Mantine does that for dialogs that are there before they
 * open; most of ours are drawn when they open and gone when they close. An entry of a menu is gone, too: its button gets the focus.
 */
export function returnFocusOfDialogs(): void {
  let opener: HTMLElement | null = null
  const closings = new MutationObserver(() => {
    if (document.querySelector('[role="dialog"]') !== null) return
    closings.disconnect()
    if (document.activeElement === document.body && opener?.isConnected) opener.focus({ preventScroll: true })
  })
  document.addEventListener('focusin', ({ target }) => {
    if (!(target instanceof HTMLElement)) return
    if (target.closest('[role="dialog"]') !== null) closings.observe(document.body, { childList: true, subtree: true })
    else if (target.closest('[role="menu"]') === null) opener = target
  })
}
