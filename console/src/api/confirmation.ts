/** Asks the person for the password. The shell registers its dialog here. */
export type AskForPassword = () => Promise<boolean>

let ask: AskForPassword
let noteDialog: () => void
const hasDialog = new Promise<void>(resolve => {
  noteDialog = resolve
})

/** A later dialog takes the place of an earlier one. */
export function registerConfirmation(dialog: AskForPassword): void {
  ask = dialog
  noteDialog()
}

/**
 * Resolves to true when the person has typed the password, and to false when the person gives up. Waits for the dialog, which loads
 * after the page.
 */
export async function confirmIdentity(): Promise<boolean> {
  await hasDialog
  return ask()
}
