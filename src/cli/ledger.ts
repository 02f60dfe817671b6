import { join } from 'node:path'
import type { Command } from 'commander'
import { noteAction } from '../base/db/audit-log.ts'
import { transactionOrDryRun } from '../base/db/dry-run.ts'
import type { Pool, Sql } from '../base/db/pool.ts'
import { commandLine } from '../base/domain/acting.ts'
import { type Nanos, usdText } from '../base/domain/money.ts'
import { ownCommand } from '../base/runtime/own-command.ts'
import { readMark } from '../base/secrets/key-ring-state.ts'
import type { MasterKeys } from '../base/secrets/master-keys.ts'
import { countSealed } from '../base/secrets/reseal.ts'
import { emailOrNull, findCustomer } from '../money/accounts/customers.ts'
import { payerOfRequest } from '../money/ledger/accounts/payer-of-request.ts'
import { balanceOf } from '../money/ledger/accounts/read-balance.ts'
import { type Refund, refundRequest } from '../money/ledger/accounts/refund-request.ts'
import { archiveOfRequest } from '../money/ledger/archive/usage-months.ts'
import { audit } from '../money/ledger/audit/audit.ts'
import type { AuditFinding } from '../money/ledger/audit/audit-checks.ts'
import { progressInFile } from '../money/ledger/audit/audit-progress.ts'
import { amountArgument, requestIdArgument, textArgument } from './arguments.ts'
import { createCommand, createCommandGroup, createSession, type Session } from './command.ts'
import { Failure } from './failure.ts'
import { timeText } from './output.ts'
import { evidenceOf, findServerKeys } from './require-master-key.ts'
import { table } from './table.ts'
import { withDatabase } from './with-database.ts'

export function ledgerCommands(): Command {
  return createCommandGroup('ledger', 'Audit the ledger and refund requests', [auditCommand(), refundCommand()])
}

function auditCommand(): Command {
  return createCommand('audit', 'Check every invariant of the ledger; fails if one is violated', [
    'ledger audit',
    'ledger audit --json',
  ])
    .option('--restart', 'begin at the first slice, even if an earlier audit was interrupted')
    .action(async options => {
      const session = createSession(options)
      const findings = await withDatabase(session, pool => auditFromFile(session, pool, options.restart === true))
      const violated = findings.filter(({ violations }) => violations > 0)
      session.output.result(
        {
          ok: violated.length === 0,
          checks: findings.map(finding => ({ ...finding, examples: [...finding.examples] })),
        },
        [
          table(
            ['state', 'check', 'violations'],
            findings.map(({ name, violations }) => [violations > 0 ? 'WRONG' : 'ok', name, String(violations)]),
            '',
          ),
          ...violated.map(({ name, examples }) => `\nExamples of ${name}: ${examples.join(' ')}`),
        ].join('\n'),
      )
      if (violated.length > 0) {
        throw new Failure(
          `${violated.length} of ${findings.length} checks failed. Stop selling until you know the cause.`,
        )
      }
      const { dataDir, databaseUrl } = session.config
      const database = databaseUrl === null ? dataDir : 'the database of DATABASE_URL'
      session.output.note(`All ${findings.length} checks passed in ${database}.`)
    })
}

async function auditFromFile(session: Session, pool: Pool, isRestarted: boolean): Promise<AuditFinding[]> {
  const { config, output } = session
  const keys = await findServerKeys(session, pool)
  const evidence = keys && evidenceOf(keys)
  if (keys !== undefined) await noteFormerKeys(output, pool, keys)
  if (evidence === undefined && (await readMark(pool)) !== undefined)
    output.note('The evidence of credit is not checked: this command has not the master key of the server.')
  const progress = progressInFile(pool, join(config.dataDir, 'audit.json'))
  if (isRestarted) await progress.save(null)
  return audit(pool, {
    progress,
    isEvidence: evidence?.isValid,
    onContinue: ({ startedAtEpochMs, done, slices }) =>
      output.note(
        `Continuing the audit of ${timeText(new Date(startedAtEpochMs))} UTC, which was interrupted after ${done} of ${slices.length} slices. Use --restart to begin at the first slice.`,
      ),
  })
}

/** A rotation of the master key that has not ended is no violation: every key of the ring opens. */
async function noteFormerKeys(output: Session['output'], pool: Pool, keys: MasterKeys): Promise<void> {
  const former = (await countSealed(pool, keys)).reduce((sum, each) => sum + each.former, 0)
  if (former > 0)
    output.note(`${former} stored secrets are still sealed with a former master key: ${ownCommand('key-ring status')}`)
}

function refundCommand(): Command {
  return createCommand('refund', 'Refund a request to its customer; a request is refunded only once', [
    'ledger refund 00000000-0000-7000-8000-000000000001 --reason "wrong language"',
    'ledger refund 00000000-0000-7000-8000-000000000001 --amount 0.002 --reason "half of it was cut off" --dry-run',
  ])
    .argument('<request-id>', 'x-request-id of the answer', requestIdArgument)
    .option('--amount <usd>', 'USD, at most the charge; default: the whole charge', amountArgument)
    .requiredOption('--reason <text>', 'why; stored in the ledger and shown to the customer; required', textArgument)
    .option('--dry-run', 'show what would happen; change nothing')
    .action(async (requestId: string, options) => {
      const session = createSession(options)
      const dryRun = options.dryRun === true
      const order = { requestId, amountNanos: (options.amount as Nanos | undefined) ?? null, reason: options.reason }
      const done = await withDatabase(session, pool => transactionOrDryRun(pool, dryRun, sql => refund(sql, order)))
      session.output.result(
        {
          request_id: requestId,
          customer_id: done.customerId,
          email: done.email,
          charged_usd: usdText(done.chargedNanos),
          amount_usd: usdText(done.refund.amountNanos),
          hoster_share_usd: usdText(done.refund.hosterShareNanos),
          fee_usd: usdText(done.refund.feeNanos),
          reason: done.refund.reason,
          at: done.refund.at.toISOString(),
          // A program that reads only `refunded` must not mistake a dry run for a refund.
          ...(dryRun ? { refunded: false, would_refund: done.isNew } : { refunded: done.isNew }),
          balance_usd: usdText(done.balanceNanos),
          dry_run: dryRun,
        },
        resultText(done, dryRun),
      )
    })
}

interface Refunded {
  readonly customerId: string
  /** Null for a deleted customer. */
  readonly email: string | null
  readonly chargedNanos: Nanos
  readonly refund: Refund
  /** False if the request was already refunded by the same amount. */
  readonly isNew: boolean
  readonly balanceNanos: Nanos
}

async function refund(
  sql: Sql,
  order: { requestId: string; amountNanos: Nanos | null; reason: string },
): Promise<Refunded> {
  const { requestId } = order
  const customerId = await payerOfRequest(sql, requestId)
  const result = customerId === undefined ? undefined : await refundRequest(sql, { customerId, ...order })
  if (customerId === undefined || result === undefined || result.kind === 'no_request') {
    const archive = await archiveOfRequest(sql, requestId)
    if (archive !== undefined) {
      throw new Failure(
        `The usage rows of ${archive.month} are archived${archive.fileName === null ? '' : ` in ${archive.fileName}`}, so the request ${requestId} can no longer be refunded. Use ${ownCommand('credit grant')} instead. Nothing was changed.`,
      )
    }
    throw new Failure(
      `There is no settled request ${requestId}. A request that is running or ended within the last second is not settled yet.`,
    )
  }
  switch (result.kind) {
    case 'free':
      throw new Failure(`The request ${requestId} cost nothing, so there is nothing to refund.`)
    case 'above_charge':
      throw new Failure(
        `The request ${requestId} cost ${usdText(result.chargedNanos)} USD; a refund cannot exceed that. Nothing was changed.`,
      )
    case 'refunded_before':
      throw new Failure(
        `The request ${requestId} was already refunded ${usdText(result.refund.amountNanos)} USD at ${timeText(result.refund.at)} UTC. A request is refunded only once. Nothing was changed.`,
      )
  }
  const customer = await findCustomer(sql, customerId)
  const balance = await balanceOf(sql, customerId)
  if (result.kind === 'refunded') {
    const detail = { amount_usd: usdText(result.refund.amountNanos), reason: result.refund.reason }
    await noteAction(sql, { ...commandLine, action: 'request.refunded', subject: requestId, customerId, detail })
  }
  return {
    customerId,
    email: emailOrNull(customer!.email),
    chargedNanos: result.chargedNanos,
    refund: result.refund,
    isNew: result.kind === 'refunded',
    balanceNanos: balance.postedNanos,
  }
}

function resultText({ email, chargedNanos, refund, isNew, balanceNanos }: Refunded, dryRun: boolean): string {
  const payer = email ?? 'the deleted customer'
  const balance = `${usdText(balanceNanos)} USD`
  const amount = `${usdText(refund.amountNanos)} of ${usdText(chargedNanos)} USD`
  if (!isNew) {
    return `${amount} was already refunded at ${timeText(refund.at)} UTC (${refund.reason}). Nothing was changed. The balance of ${payer} is ${balance}.`
  }
  const { hosterShareNanos: share, feeNanos: fee } = refund
  const parts = [
    ...(share > 0n ? [`${usdText(share)} USD from the hoster`] : []),
    ...(fee > 0n ? [`${usdText(fee)} USD from the platform`] : []),
  ].join(', ')
  if (dryRun) return `Would refund ${amount} to ${payer}: ${parts}. The balance would be ${balance}.`
  return `Refunded ${amount} to ${payer}: ${parts}. The balance is ${balance}.`
}
