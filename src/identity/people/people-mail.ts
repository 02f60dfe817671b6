import { randomUUID } from 'node:crypto'

/** A mail to a person. The text has a link: without a mail server nothing of it is logged. */
export interface PersonMail {
  readonly to: string
  readonly subject: string
  readonly text: string
}

export interface PeopleMail {
  /** Whether a mail server is configured. */
  readonly canSend: boolean
  /** Returns whether the mail server accepted the mail. Never rejects. */
  send(mail: PersonMail): Promise<boolean>
  /** Turns the path of a link into a URL. */
  url(path: string): string
}

/** @param send sends through the operator's mail server; null: there is none */
export function createPeopleMail({
  send,
  baseUrl,
}: {
  send: ((mail: PersonMail & { id: string }) => Promise<{ outcome: string }>) | null
  baseUrl: () => string
}): PeopleMail {
  return {
    canSend: send !== null,
    url: path => `${baseUrl()}${path}`,
    async send(mail) {
      if (send === null) return false
      const { outcome } = await send({ ...mail, id: randomUUID() })
      return outcome === 'delivered'
    },
  }
}
