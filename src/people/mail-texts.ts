import type { PersonMail } from './people-mail.ts'

// Plain text, so that no name can carry a link of its own: mail programs show what is there.

export function inviteMail(invite: {
  to: string
  by: string
  customerEmail: string
  role: string
  url: string
}): PersonMail {
  const { to, by, customerEmail, role, url } = invite
  return {
    to,
    subject: `Invitation to ${customerEmail}`,
    text: `${by} invites you to join ${customerEmail} as ${role}.\n\nAccept the invitation within 7 days:\n${url}\n\nIf you do not know the sender, you need not do anything.\n`,
  }
}
