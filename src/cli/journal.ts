import { join, relative } from 'node:path'
import type { Command } from 'commander'
import type { Sql } from '../base/db/pool.ts'
import { queryRow } from '../base/db/query-row.ts'
import { usdText } from '../base/domain/money.ts'
import { payerOfRequest } from '../money/ledger/accounts/payer-of-request.ts'
import { type InspectedFile, inspectJournals } from '../money/ledger/journal/inspect-journals.ts'
import { salvageSettlements } from '../money/ledger/settlement/salvage-settlements.ts'
import { isArchived } from '../money/usage/archived-before.ts'
import { hasDatabase } from '../start/has-database.ts'
import { createCommand, createCommandGroup, createSession, type Session } from './command.ts'
import { counted } from './counted.ts'
import { timeText } from './output.ts'
import { table } from './table.ts'
import { withDatabase } from './with-database.ts'

export function journalCommands(): Command {
  return createCommandGroup('journal', 'Inspect the journals of charges', [inspectCommand()])
}

function inspectCommand(): Command {
  return createCommand('inspect', 'Show what damaged journal files say about their charges; changes nothing', [
    'journal inspect',
    'journal inspect --json',
  ]).action(async options => {
    const session = createSession(options)
    const { config, output } = session
    const files = inspectJournals(join(config.dataDir, 'journal'))
    const findings = files.flatMap(findingsIn)
    const settled = await settledRequests(session, findings)
    const rows = findings.map(finding => ({ ...finding, settled: settled.get(finding.requestId ?? '') ?? null }))
    output.result(
      {
        files: files.map(({ path, isInUse, records, tornBytes, damages }) => ({
          file: path,
          in_use: isInUse,
          records,
          torn_bytes: tornBytes,
          damaged_places: damages.length,
        })),
        damaged: rows.map(({ path, offset, bytes, requestId, customerId, costUsd, startedAt, settled }) => ({
          file: path,
          offset,
          bytes,
          request_id: requestId,
          customer_id: customerId,
          cost_usd: costUsd,
          started_at: startedAt?.toISOString() ?? null,
          settled,
        })),
      },
      table(
        ['file', 'offset', 'bytes', 'request', 'customer', 'USD', 'started (UTC)', 'settled'],
        rows.map(({ path, offset, bytes, requestId, customerId, costUsd, startedAt, settled }) => [
          ...[relative(config.dataDir, path), String(offset), String(bytes), requestId ?? '?', customerId ?? '?'],
          ...[costUsd ?? '?', startedAt === null ? '?' : timeText(startedAt)],
          settled === null ? '?' : settled ? 'yes' : 'no',
        ]),
        '',
      ),
    )
    output.note(summaryOf(files, rows.length))
  })
}

interface DamageFinding {
  readonly path: string
  readonly offset: number
  readonly bytes: number
  readonly requestId: string | null
  readonly customerId: string | null
  readonly costUsd: string | null
  readonly startedAt: Date | null
}

function findingsIn({ path, damages }: InspectedFile): DamageFinding[] {
  return damages.flatMap(({ offset, content }) =>
    salvageSettlements(content).map(({ requestId, customerId, settlement }) => ({
      path,
      offset,
      bytes: content.length,
      requestId,
      customerId,
      costUsd: settlement === null ? null : usdText(settlement.costNanos),
      startedAt: settlement === null ? null : new Date(settlement.startedAtEpochMs),
    })),
  )
}

/** Whether PostgreSQL has the charge of each request; none for one of an archived month. Empty when PostgreSQL cannot be asked. */
async function settledRequests(
  session: Session,
  findings: readonly DamageFinding[],
): Promise<ReadonlyMap<string, boolean>> {
  const requestIds = new Set(findings.flatMap(({ requestId }) => requestId ?? []))
  if (requestIds.size === 0 || !hasDatabase(session.config)) return new Map()
  try {
    return await withDatabase(session, async pool => {
      const settled = new Map<string, boolean>()
      for (const requestId of requestIds) {
        const fate = await fateOfCharge(pool, requestId)
        if (fate !== 'archived') settled.set(requestId, fate === 'settled')
      }
      return settled
    })
  } catch (error) {
    session.output.note(`Whether these requests are settled is unknown: ${(error as Error).message}`)
    return new Map()
  }
}

/**
 * Returns what became of the charge of a request: `settled`; `free` when the books say that its process died before it could charge,
 * or only presume its end; `archived` when its row would be in an archived month; undefined when there is no row.
 */
async function fateOfCharge(sql: Sql, requestId: string): Promise<'settled' | 'free' | 'archived' | undefined> {
  const customerId = await payerOfRequest(sql, requestId)
  if (customerId === undefined) return (await isArchived(sql, requestId)) ? 'archived' : undefined
  const { is_free } = await queryRow<{ is_free: boolean }>(
    sql,
    "SELECT outcome IN ('node_died', 'superseded') AS is_free FROM usage_event WHERE customer_id = $1 AND request_id = $2",
    [customerId, requestId],
  )
  return is_free ? 'free' : 'settled'
}

function summaryOf(files: readonly InspectedFile[], damages: number): string {
  const records = files.reduce((sum, file) => sum + file.records, 0)
  const undamaged = `${counted(files.length, 'file')} with ${counted(records, 'readable record')}`
  return damages === 0
    ? `${undamaged}, no damage.`
    : `${undamaged}. The values above come from bytes with a wrong checksum, so any of them may be wrong. A request that is not settled was delivered for free.`
}
