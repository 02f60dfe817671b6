import { randomUUID } from 'node:crypto'
import type { Command } from 'commander'
import { noteAction } from '../base/db/audit-log.ts'
import { transaction } from '../base/db/pool.ts'
import { queryRow } from '../base/db/query-row.ts'
import { commandLine } from '../base/domain/acting.ts'
import { DAY_MS } from '../base/domain/durations.ts'
import { type Nanos, usdText } from '../base/domain/money.ts'
import { drawVoucherCode, listVouchers } from '../money/payments/vouchers.ts'
import { amountArgument, textArgument, upToArgument } from './arguments.ts'
import { createCommand, createCommandGroup, createSession } from './command.ts'
import { Failure } from './failure.ts'
import { timeText } from './output.ts'
import { requireEvidence } from './require-master-key.ts'
import { table } from './table.ts'
import { withDatabase } from './with-database.ts'

export function voucherCommands(): Command {
  return createCommandGroup('voucher', 'Make vouchers: codes that give credit once', [make(), list(), revoke()])
}

const LISTED = 100
/** All are made in one transaction. */
const VOUCHERS_MAX = 3_650
/** Ten years. */
const DAYS_MAX = 3_650

function make(): Command {
  return createCommand('make', 'Make vouchers and print their codes, which cannot be read again', [
    'voucher make 5 --count 20 --days 90 --note "workshop in May"',
    'voucher make 25 --paid --note "sold to Acme"',
  ])
    .argument('<usd>', 'credit of each voucher in USD', amountArgument)
    .option('--count <n>', 'how many', upToArgument(VOUCHERS_MAX), 1)
    .option('--days <n>', 'days until they expire', upToArgument(DAYS_MAX), 365)
    .option('--note <text>', 'what they are for; not shown to customers', textArgument)
    .option('--paid', 'they are paid for; without it, their credit is promotion')
    .action(async (amountNanos: Nanos, options) => {
      const session = createSession(options)
      const isPromotion = options.paid !== true
      const expiresAt = new Date(Date.now() + (options.days as number) * DAY_MS)
      const made = Array.from({ length: options.count as number }, () => ({
        voucherId: randomUUID(),
        ...drawVoucherCode(),
      }))
      await withDatabase(session, pool =>
        transaction(pool, async sql => {
          const evidence = await requireEvidence(session, sql)
          for (const { voucherId, hash, hint } of made) {
            await sql.query('SELECT make_voucher($1, $2, $3, $4, $5, $6, NULL, $7)', [
              voucherId,
              hash,
              hint,
              amountNanos,
              options.note ?? '',
              isPromotion,
              expiresAt,
            ])
            await evidence.addVoucher(sql, voucherId, amountNanos)
          }
          for (const { voucherId, hint } of made) {
            const detail = {
              amount_usd: usdText(amountNanos),
              hint,
              note: options.note ?? '',
              is_promotion: isPromotion,
            }
            await noteAction(sql, { ...commandLine, action: 'voucher.made', subject: voucherId, detail })
          }
        }),
      )
      session.output.result(
        made.map(({ voucherId, code }) => ({
          voucher_id: voucherId,
          code,
          amount_usd: usdText(amountNanos),
          is_promotion: isPromotion,
          expires_at: expiresAt.toISOString(),
        })),
        made.map(({ code }) => code).join('\n'),
      )
      session.output.note(
        `Each is worth ${usdText(amountNanos)} USD${isPromotion ? ' of promotion credit' : ''} until ${timeText(expiresAt)} UTC.`,
      )
    })
}

function list(): Command {
  return createCommand('list', `List the newest ${LISTED} vouchers`, ['voucher list']).action(async options => {
    const session = createSession(options)
    const vouchers = await withDatabase(session, pool => listVouchers(pool, { limit: LISTED, after: null }))
    session.output.result(
      vouchers.map(each => ({
        voucher_id: each.voucherId,
        hint: each.hint,
        amount_usd: usdText(each.amountNanos),
        note: each.note,
        is_promotion: each.isPromotion,
        state: each.state,
        email: each.email,
        made_at: each.madeAt.toISOString(),
        expires_at: each.expiresAt.toISOString(),
      })),
      table(
        ['made', 'code ends in', 'USD', 'kind', 'state', 'redeemed by', 'note', 'id'],
        vouchers.map(each => [
          timeText(each.madeAt),
          each.hint,
          usdText(each.amountNanos),
          each.isPromotion ? 'promotion' : 'paid',
          each.state,
          each.email ?? '',
          each.note,
          each.voucherId,
        ]),
        'There are no vouchers.',
      ),
    )
  })
}

function revoke(): Command {
  return createCommand('revoke', 'Make a voucher worthless', ['voucher revoke 7K2M9'])
    .argument('<voucher>', 'the last five characters of its code, or its id', textArgument)
    .action(async (hintOrId: string, options) => {
      const session = createSession(options)
      const { found, isRevoked } = await withDatabase(session, pool =>
        transaction(pool, async sql => {
          const { rows } = await sql.query<{ id: string; hint: string }>(
            'SELECT voucher_id AS id, hint FROM voucher WHERE hint = upper($1) OR voucher_id::text = lower($1)',
            [hintOrId],
          )
          const [voucher] = rows
          if (voucher === undefined || rows.length > 1) return { found: rows.length, isRevoked: false }
          const { done } = await queryRow<{ done: boolean }>(sql, 'SELECT revoke_voucher($1) AS done', [voucher.id])
          if (done) {
            const detail = { hint: voucher.hint }
            await noteAction(sql, { ...commandLine, action: 'voucher.revoked', subject: voucher.id, detail })
          }
          return { found: 1, isRevoked: done }
        }),
      )
      if (found === 0) throw new Failure(`There is no voucher ${hintOrId}.`)
      if (found > 1) throw new Failure(`${found} vouchers end in ${hintOrId}. Use the id.`)
      if (!isRevoked) throw new Failure('The voucher was used or revoked before. Nothing was changed.')
      session.output.result({ voucher: hintOrId, revoked: true }, `Revoked the voucher ${hintOrId}.`)
    })
}
