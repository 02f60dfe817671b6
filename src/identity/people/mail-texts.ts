import { DAY_MS, HOUR_MS } from '../../base/domain/durations.ts'
import { isEmail } from '../../base/runtime/email.ts'
import { INVITE_MS, MAILED_MS } from './links.ts'
import type { PersonMail } from './people-mail.ts'

// Plain text, so that a name hides no link behind other words. What mail programs show as a link is left out as well, except for plain e-mail addresses.

const NOT_YOU = 'If you did not ask for this, you need not do anything.'

export function inviteMail(invite: {
  to: string
  by: string
  /** The e-mail address of the customer, or the name of the hoster. */
  name: string
  role: string
  url: string
}): PersonMail {
  const { to, role, url } = invite
  const by = withoutLink(invite.by, 'A member')
  const name = withoutLink(invite.name, 'a hoster')
  return {
    to,
    subject: `Invitation to ${name}`,
    text: `${by} invites you to join ${name} as ${role}.\n\nAccept the invitation within ${spanText(INVITE_MS)}:\n${url}\n\nIf you do not know the sender, you need not do anything.\n`,
  }
}

/** Returns the name, or `otherwise` for one that mail programs show as a link to a page, such as "www.example.com". */
function withoutLink(name: string, otherwise: string): string {
  return isPlainAddress(name) || !/:\/\/|[\p{L}\p{N}]\.\p{L}{2}/u.test(name) ? name : otherwise
}

/** Not "www.example.com/page?x=1@a", which is an e-mail address too. */
function isPlainAddress(name: string): boolean {
  return isEmail(name) && /^(?!www\.)[\w.+-]+@/i.test(name)
}

function spanText(ms: number): string {
  if (ms > DAY_MS) return `${ms / DAY_MS} days`
  return ms === HOUR_MS ? 'one hour' : `${ms / HOUR_MS} hours`
}

export function signUpMail(to: string, url: string): PersonMail {
  return {
    to,
    subject: 'Finish your sign-up',
    text: `Set your password within ${spanText(MAILED_MS.sign_up)}, and your account is ready:\n${url}\n\n${NOT_YOU}\n`,
  }
}

/** Sent for a sign-up of an address that has an account, since the page must not say so. */
export function hasAccountMail(to: string, url: string): PersonMail {
  return {
    to,
    subject: 'You already have an account',
    text: `You have an account with this address. Sign in, or set a new password, at:\n${url}\n\n${NOT_YOU}\n`,
  }
}

export function resetMail(to: string, url: string): PersonMail {
  return {
    to,
    subject: 'Set a new password',
    text: `Set a new password within ${spanText(MAILED_MS.reset)}:\n${url}\n\nYour password stays as it is until then. ${NOT_YOU}\n`,
  }
}

/** Subject and first sentence. No name that a person chose: it could look like a text of this server. */
const securityChanges = {
  password_changed: ['Your password was changed', 'Your password was changed, and all other sessions have ended.'],
  app_added: ['An authenticator app was added', 'Your account now asks for codes of an authenticator app.'],
  app_removed: ['Your authenticator app was removed', 'Your account no longer asks for codes of an authenticator app.'],
  recovery_codes_made: [
    'New recovery codes were made',
    'The recovery codes of your account were replaced by new ones.',
  ],
  passkey_added: ['A passkey was added', 'A new passkey can sign in to your account.'],
  passkey_removed: ['A passkey was removed', 'A passkey of your account no longer works.'],
  service_linked: ['Another sign-in was linked', 'Your account at another service can now sign in here.'],
  service_unlinked: ['A sign-in was unlinked', 'Your account at another service can no longer sign in here.'],
} as const

export type SecurityChange = keyof typeof securityChanges

export function securityMail(to: string, change: SecurityChange): PersonMail {
  const [subject, text] = securityChanges[change]
  return {
    to,
    subject,
    text: `${text}\n\nIf it was not you, set a new password at once, and tell the operator of this server.\n`,
  }
}

export function newEmailMail(to: string, url: string): PersonMail {
  return {
    to,
    subject: 'Confirm your new address',
    text: `Sign in and open this link within ${spanText(MAILED_MS.email)}. Then this is the address of your account:\n${url}\n\n${NOT_YOU}\n`,
  }
}

/** Sent to the owners of a hoster. @param mail.target where the earnings will go, without names that a person chose */
export function payoutChangeMail(mail: { to: string; target: string; effectiveAt: Date; url: string }): PersonMail {
  const at = `${mail.effectiveAt.toISOString().slice(0, 16).replace('T', ' ')} UTC`
  return {
    to: mail.to,
    subject: 'Your earnings will go somewhere else',
    text: `From ${at} on, the earnings of your hoster will go to ${mail.target}. Until then, nothing changes.\n\nIf you did not expect this, sign in and stop the change:\n${mail.url}\n`,
  }
}

/** Sent to the former address. */
export function emailChangedMail(to: string, email: string): PersonMail {
  return {
    to,
    subject: 'Your e-mail address was changed',
    text: `Your account now has the address ${email}. If it was not you, tell the operator of this server at once.\n`,
  }
}
