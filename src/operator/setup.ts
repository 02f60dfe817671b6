import { randomUUID } from 'node:crypto'
import type { Sql } from '../base/db/pool.ts'
import { DAY_MS, HOUR_MS } from '../base/domain/durations.ts'
import type { Offer } from '../base/domain/offer.ts'
import { ownCommand } from '../base/runtime/own-command.ts'
import type { Clock } from '../base/runtime/scheduler.ts'
import type { PeopleMail } from '../identity/people/people-mail.ts'
import type { PaymentDriver } from '../money/payments/payment-driver.ts'
import type { SetupReport, SetupTest } from '../wire/api/operator/setup.ts'
import { readLastBackup } from './last-backup.ts'

type Step = SetupReport['steps'][number]

/** What a new gateway needs before it is sold from, and tests of it. */
export interface OperatorSetup {
  read(): Promise<SetupReport>
  /** Sends a mail to the person that asks. */
  testMail(person: { readonly email: string }): Promise<SetupTest>
  /** Asks each payment service. */
  testPayments(): Promise<SetupTest>
}

export interface OperatorSetupDeps {
  readonly sql: Sql
  readonly clock: Clock
  readonly mail: PeopleMail
  readonly drivers: readonly PaymentDriver[]
  readonly offers: () => readonly Offer[]
  /** Without a backup in as many days there is an alarm; 0: backups are made by other means. */
  readonly backupDays: number
  /** The address that people use, such as https://gateway.example. */
  readonly baseUrl: () => string
}

export function createOperatorSetup(deps: OperatorSetupDeps): OperatorSetup {
  const { sql, clock, mail, drivers, offers, backupDays, baseUrl } = deps
  return {
    read: async () => ({
      steps: [
        mailStep(mail.canSend),
        paymentStep(drivers),
        providerStep(offers()),
        backupStep(await readLastBackup(sql), backupDays, clock.epochMs()),
        tlsStep(baseUrl()),
      ],
    }),
    async testMail({ email }) {
      if (!mail.canSend) return { is_working: false, detail: texts.noMail }
      const isSent = await mail.send({ to: email, subject: texts.mailSubject, text: texts.mailText })
      return { is_working: isSent, detail: isSent ? texts.mailSent(email) : texts.mailRefused }
    },
    testPayments: () => askDrivers(drivers, clock.epochMs()),
  }
}

function mailStep(canSend: boolean): Step {
  const step = { step: 'mail', is_done: canSend, link: null, has_test: canSend } as const
  return canSend
    ? { ...step, detail: texts.mailReady, todo: null }
    : { ...step, detail: texts.noMail, todo: texts.mailTodo }
}

function paymentStep(drivers: readonly PaymentDriver[]): Step {
  const names = drivers.map(({ name }) => name).join(', ')
  const isDone = drivers.length > 0
  return {
    step: 'payments',
    is_done: isDone,
    detail: isDone ? texts.paymentsBy(names) : texts.noPayments,
    todo: isDone ? null : texts.paymentsTodo,
    link: '/operator/money',
    has_test: drivers.some(({ provider }) => provider !== null),
  }
}

function providerStep(offers: readonly Offer[]): Step {
  const models = new Set(offers.filter(({ endpoint }) => !endpoint.demo).map(({ modelId }) => modelId)).size
  return {
    step: 'provider',
    is_done: models > 0,
    detail: models > 0 ? texts.models(models) : texts.noProvider,
    todo: models > 0 ? null : texts.providerTodo,
    link: '/operator/providers',
    has_test: false,
  }
}

function backupStep(lastMs: number | null, backupDays: number, nowMs: number): Step {
  const step = { step: 'backups', link: null, has_test: false } as const
  if (backupDays === 0) return { ...step, is_done: true, detail: texts.otherBackups, todo: null }
  const isDone = lastMs !== null && nowMs - lastMs <= backupDays * DAY_MS
  const detail = lastMs === null ? texts.noBackup : texts.lastBackup(new Date(lastMs).toISOString())
  return { ...step, is_done: isDone, detail, todo: isDone ? null : texts.backupTodo }
}

function tlsStep(baseUrl: string): Step {
  const { protocol, hostname } = new URL(baseUrl)
  const isDone = protocol === 'https:'
  const isLocal = ['localhost', '127.0.0.1', '[::1]'].includes(hostname)
  return {
    step: 'tls',
    is_done: isDone,
    detail: isDone ? texts.tls(baseUrl) : isLocal ? texts.onlyLocal(baseUrl) : texts.noTls(baseUrl),
    todo: isDone ? null : texts.tlsTodo,
    link: null,
    has_test: false,
  }
}

async function askDrivers(drivers: readonly PaymentDriver[], nowMs: number): Promise<SetupTest> {
  const asked = drivers.flatMap(({ name, isLive, provider }) => (provider === null ? [] : [{ name, isLive, provider }]))
  if (asked.length === 0) return { is_working: false, detail: texts.nobodyToAsk }
  const answers = await Promise.all(
    asked.map(async ({ name, isLive, provider }) => {
      try {
        if (provider.moves !== null) await provider.moves.between(nowMs - HOUR_MS, nowMs)
        else await provider.find(noAttempt(nowMs))
        const webhook = provider.webhook === null ? texts.noWebhook : texts.webhook
        return { isWorking: true, text: `${name}: ${isLive ? texts.answersLive : texts.answersTest}; ${webhook}` }
      } catch (error) {
        return { isWorking: false, text: `${name}: ${texts.refused} ${(error as Error).message}` }
      }
    }),
  )
  return {
    is_working: answers.every(({ isWorking }) => isWorking),
    detail: answers.map(({ text }) => text).join(' '),
  }
}

/** No provider has a payment with this id, so it answers that there is none. */
function noAttempt(nowMs: number) {
  const at = new Date(nowMs)
  return { paymentId: randomUUID(), accountRef: null, startedAt: at, endedAt: at, isCharge: false }
}

const texts = {
  noMail: 'No mail server is set, so links and alerts reach nobody.',
  mailReady: 'A mail server is set.',
  mailTodo:
    'Set smtp.host, smtp.user, smtp.password and smtp.from in switchyard.yaml, then restart the gateway: docs/config.md.',
  mailSubject: 'Switchyard can send mail',
  mailText: 'This is the test mail that you asked for. Invitations, links and alerts arrive the same way.',
  mailSent: (email: string) => `The mail server took a mail to ${email}. Look whether it arrives.`,
  mailRefused: 'The mail server did not take the mail. The log of the gateway says why.',
  noPayments: 'Customers cannot buy credit. You can grant it, and make vouchers.',
  paymentsBy: (names: string) => `Customers pay by: ${names}.`,
  paymentsTodo:
    'Set a bank account or a payment service under payments in switchyard.yaml, then restart the gateway: docs/payments.md.',
  nobodyToAsk: 'No payment service is set that could be asked.',
  answersLive: 'answers, in live mode',
  answersTest: 'answers, in test mode',
  webhook: 'events are checked with a secret.',
  noWebhook: 'no webhook secret is set, so payments are seen late.',
  refused: 'does not work.',
  noProvider: 'Only the demo model is offered.',
  models: (count: number) => `${count === 1 ? 'One model is' : `${count} models are`} offered.`,
  providerTodo: 'Add a provider: paste its key, test it, and choose the models.',
  otherBackups: 'Backups are made by other means (alarms.backup_days is 0).',
  noBackup: 'No backup was made yet.',
  lastBackup: (at: string) => `The last backup began at ${at}.`,
  backupTodo: `Run "${ownCommand('backup FILE')}" every day, from cron or a systemd timer: docs/operating.md.`,
  tls: (url: string) => `People use ${url}.`,
  onlyLocal: (url: string) => `People use ${url}, which only this machine reaches.`,
  noTls: (url: string) => `People use ${url}: others can read passwords and keys on their way.`,
  tlsTodo:
    'Put a proxy with TLS in front, such as Caddy, and set server.public_base_url to its https address: docs/operating.md.',
} as const
