import { randomUUID } from 'node:crypto'
import type { Sql } from '../base/db/pool.ts'
import { HOUR_MS } from '../base/domain/durations.ts'
import type { Offer } from '../base/domain/offer.ts'
import { joined, type Said, sentencesOf } from '../base/domain/said.ts'
import { ownCommand } from '../base/runtime/own-command.ts'
import type { Clock } from '../base/runtime/scheduler.ts'
import type { PeopleMail } from '../identity/people/people-mail.ts'
import type { PaymentDriver } from '../money/payments/payment-driver.ts'
import type { SetupReport, SetupTest } from '../wire/api/operator/setup.ts'
import { isBackupDue, readBackupState } from './backup-state.ts'
import { setupSentences } from './setup-sentences.ts'
import { setupSnippets } from './setup-snippets.ts'

const say = sentencesOf(setupSentences)
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
  /** Without a backup in as many hours there is an alarm; 0: backups are made by other means. */
  readonly backupHours: () => number
  /** The path of the configuration file, whether or not it exists. */
  readonly configFile: string
  /** The address that people use, such as https://gateway.example. */
  readonly baseUrl: () => string
}

export function createOperatorSetup(deps: OperatorSetupDeps): OperatorSetup {
  const { sql, clock, mail, drivers, offers, backupHours, baseUrl } = deps
  return {
    read: async () => ({
      config_file: deps.configFile,
      steps: [
        providerStep(offers()),
        mailStep(mail.canSend),
        paymentStep(drivers),
        backupStep((await readBackupState(sql)).lastMs, backupHours(), clock.epochMs()),
        tlsStep(baseUrl()),
      ],
    }),
    async testMail({ email }) {
      if (!mail.canSend) return found(false, say('setup.mail.none'))
      const isSent = await mail.send({ to: email, ...testMail })
      return found(isSent, isSent ? say('setup.mail.sent', { email }) : say('setup.mail.refused'))
    },
    testPayments: () => askDrivers(drivers, clock.epochMs()),
  }
}

const testMail = {
  subject: 'Switchyard can send mail',
  text: 'This is the test mail that you asked for. Invitations, links and alerts arrive the same way.',
} as const

/** @param todo what to do where no page does it; null for a step that is done */
function stepOf(step: Pick<Step, 'step' | 'link' | 'has_test'>, detail: Said, todo: Said | null): Step {
  return {
    ...step,
    is_done: todo === null,
    detail: detail.text,
    detail_codes: detail.codes,
    todo: todo?.text ?? null,
    todo_codes: todo?.codes ?? [],
    snippet: todo === null ? null : (setupSnippets[step.step] ?? null),
  }
}

function found(isWorking: boolean, detail: Said): SetupTest {
  return { is_working: isWorking, detail: detail.text, detail_codes: detail.codes }
}

function mailStep(canSend: boolean): Step {
  const step = { step: 'mail', link: null, has_test: canSend } as const
  return canSend
    ? stepOf(step, say('setup.mail.ready'), null)
    : stepOf(step, say('setup.mail.none'), say('setup.mail.todo'))
}

function paymentStep(drivers: readonly PaymentDriver[]): Step {
  const names = drivers.map(({ name }) => name).join(', ')
  const step = {
    step: 'payments',
    link: '/operator/money',
    has_test: drivers.some(({ provider }) => provider !== null),
  } as const
  return drivers.length > 0
    ? stepOf(step, say('setup.payments.ready', { names }), null)
    : stepOf(step, say('setup.payments.none'), say('setup.payments.todo'))
}

function providerStep(offers: readonly Offer[]): Step {
  const count = new Set(offers.filter(({ endpoint }) => !endpoint.demo).map(({ modelId }) => modelId)).size
  const step = { step: 'provider', link: '/operator/providers', has_test: false } as const
  if (count === 0) return stepOf(step, say('setup.provider.none'), say('setup.provider.todo'))
  return stepOf(step, count === 1 ? say('setup.provider.one') : say('setup.provider.ready', { count }), null)
}

function backupStep(lastMs: number | null, backupHours: number, nowMs: number): Step {
  const step = { step: 'backups', link: null, has_test: false } as const
  if (backupHours === 0) return stepOf(step, say('setup.backups.other'), null)
  const todo = say('setup.backups.todo', { command: ownCommand('backup FILE') })
  if (lastMs === null) return stepOf(step, say('setup.backups.none'), todo)
  const last = say('setup.backups.last', { at: new Date(lastMs).toISOString() })
  return stepOf(step, last, isBackupDue(lastMs, backupHours, nowMs) ? todo : null)
}

function tlsStep(baseUrl: string): Step {
  const { protocol, hostname } = new URL(baseUrl)
  const step = { step: 'tls', link: null, has_test: false } as const
  const url = { url: baseUrl }
  if (protocol === 'https:') return stepOf(step, say('setup.tls.ready', url), null)
  const isLocal = ['localhost', '127.0.0.1', '[::1]'].includes(hostname)
  return stepOf(step, isLocal ? say('setup.tls.local', url) : say('setup.tls.none', url), say('setup.tls.todo'))
}

async function askDrivers(drivers: readonly PaymentDriver[], nowMs: number): Promise<SetupTest> {
  const asked = drivers.flatMap(({ name, isLive, provider }) => (provider === null ? [] : [{ name, isLive, provider }]))
  if (asked.length === 0) return found(false, say('setup.payments.nobody'))
  const answers = await Promise.all(
    asked.map(async ({ name, isLive, provider }) => {
      try {
        if (provider.moves !== null) await provider.moves.between(nowMs - HOUR_MS, nowMs)
        else await provider.find(noAttempt(nowMs))
        return { isWorking: true, answer: answerOf({ name, isLive, hasWebhook: provider.webhook !== null }) }
      } catch (error) {
        return { isWorking: false, answer: say('setup.payments.refused', { name, error: (error as Error).message }) }
      }
    }),
  )
  return found(
    answers.every(({ isWorking }) => isWorking),
    joined(...answers.map(({ answer }) => answer)),
  )
}

function answerOf({ isLive, hasWebhook, name }: { isLive: boolean; hasWebhook: boolean; name: string }): Said {
  if (hasWebhook) return isLive ? say('setup.payments.live', { name }) : say('setup.payments.test', { name })
  return isLive ? say('setup.payments.live.no_webhook', { name }) : say('setup.payments.test.no_webhook', { name })
}

/** No provider has a payment with this id, so it answers that there is none. */
function noAttempt(nowMs: number) {
  const at = new Date(nowMs)
  return { paymentId: randomUUID(), accountRef: null, startedAt: at, endedAt: at, isCharge: false }
}
