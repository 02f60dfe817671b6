/** Asks the person for the password. The shell registers its dialog here. */
export type AskForPassword = () => Promise<boolean>

let ask: AskForPassword = async () => false

export function registerConfirmation(dialog: AskForPassword): () => void {
  ask = dialog
  return () => {
    ask = async () => false
  }
}

/** Resolves to true when the person has typed the password, and to false when the person gives up. */
export function confirmIdentity(): Promise<boolean> {
  return ask()
}
