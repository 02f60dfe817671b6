import { Problem } from './request.ts'

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

/** Tries something, and once more after the person has typed the password if the gateway asks for that. */
export async function withConfirmation<Answer>(attempt: () => Promise<Answer>): Promise<Answer> {
  try {
    return await attempt()
  } catch (error) {
    const needsPassword = error instanceof Problem && error.code === 'confirmation_required'
    if (needsPassword && (await confirmIdentity())) return await attempt()
    throw error
  }
}

/**
 * Resolves to true when the person has typed the password, and to false when the person gives up. Waits for the dialog, which loads
 * after the page.
 */
export async function confirmIdentity(): Promise<boolean> {
  await hasDialog
  return ask()
}
