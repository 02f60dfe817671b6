import type { Transporter } from 'nodemailer'
import { loadOnce } from '../../base/runtime/load-once.ts'
import type { Sent } from './post-webhook.ts'

/** Settings of the operator's mail server. */
export interface SmtpSettings {
  /** Null: no mail server; mails are logged instead. */
  readonly host: string | null
  readonly port: number
  /** `starttls` and `tls` never send without encryption. */
  readonly security: 'starttls' | 'tls' | 'none'
  readonly user: string | null
  readonly password: string | null
  readonly from: string
}

export interface Mail {
  readonly to: string
  readonly subject: string
  readonly text: string
  /** The same for all attempts, so that a mailbox shows a repeated mail once. */
  readonly id: string
}

export interface Mailer {
  /** Never rejects. The returned error is meant for the customer; the cause is logged. */
  send(mail: Mail): Promise<Sent>
}

export interface MailerLog {
  info(facts: object, message: string): void
  warn(facts: { readonly mailId: string; readonly err: unknown }, message: string): void
}

const TIMEOUT_MS = 10_000

export function createMailer(smtp: SmtpSettings, log: MailerLog): Mailer {
  const { host } = smtp
  if (host === null) {
    return {
      async send({ id, subject, text }) {
        log.info({ mailId: id, subject, text }, 'smtp.host is not set, so this mail is logged instead of sent')
        return { outcome: 'logged', status: null, error: null }
      },
    }
  }
  const transport = loadOnce(() => openTransport(host, smtp))
  return {
    async send({ to, subject, text, id }) {
      try {
        await (await transport()).sendMail({ from: smtp.from, to, subject, text, messageId: `<${id}@switchyard>` })
        return { outcome: 'delivered', status: null, error: null }
      } catch (error) {
        log.warn({ mailId: id, err: error }, 'a mail could not be sent')
        return { outcome: 'failed', status: null, error: 'The mail server did not accept the mail.' }
      }
    },
  }
}

/**
 * Loads nodemailer on first use. Loading takes 90 ms, which would otherwise slow down every start and every command.
 */
async function openTransport(host: string, { port, security, user, password }: SmtpSettings): Promise<Transporter> {
  const { createTransport } = await import('nodemailer')
  return createTransport({
    host,
    port,
    secure: security === 'tls',
    requireTLS: security === 'starttls',
    ignoreTLS: security === 'none',
    ...(user !== null && { auth: { user, pass: password ?? '' } }),
    connectionTimeout: TIMEOUT_MS,
    greetingTimeout: TIMEOUT_MS,
    socketTimeout: TIMEOUT_MS,
    // Mails are plain text: never read files or fetch URLs.
    disableFileAccess: true,
    disableUrlAccess: true,
  })
}
