import type { Command } from 'commander'
import { usdText } from '../base/domain/money.ts'
import { systemClock } from '../base/runtime/scheduler.ts'
import { readEarnings, readFunds, readMovements } from '../money/payouts/earnings.ts'
import { statementCsv } from '../money/payouts/statement-csv.ts'
import { dayArgument, textArgument } from './arguments.ts'
import { createCommand, createSession } from './command.ts'
import { resolveHoster } from './resolve.ts'
import { table } from './table.ts'
import { withDatabase } from './with-database.ts'

/** `switchyard payout statement`: what a hoster earned by day and model. */
export function payoutStatement(): Command {
  return createCommand('statement', 'Show what a hoster earned by day and model, and what it has', [
    'payout statement acme',
    'payout statement acme --from 2026-11-01 --to 2026-12-01 --csv > acme.csv',
  ])
    .argument('<hoster>', 'name or id', textArgument)
    .option('--from <day>', 'first UTC day; default: the beginning', dayArgument)
    .option('--to <day>', 'last UTC day, exclusive; default: now', dayArgument)
    .option('--csv', 'print the lines as CSV')
    .action(async (hoster: string, options) => {
      const session = createSession(options)
      const span = { from: options.from ?? null, to: options.to ?? null }
      const { lines, movements, funds } = await withDatabase(session, async pool => {
        const { hosterId } = await resolveHoster(pool, hoster)
        return {
          lines: await readEarnings(pool, hosterId, span),
          movements: await readMovements(pool, hosterId, span),
          funds: (await readFunds(pool, hosterId, session.config.payouts.holdDays, systemClock.epochMs()))!,
        }
      })
      if (options.csv === true) {
        session.output.result({ csv: statementCsv(lines) }, statementCsv(lines).trimEnd())
        return
      }
      session.output.result(
        {
          hoster_id: funds.hosterId,
          name: funds.name,
          balance_usd: usdText(funds.balanceNanos),
          held_usd: usdText(funds.heldNanos),
          held_until: funds.heldUntil,
          payable_usd: usdText(funds.payableNanos),
          promotion_usd: usdText(funds.promotionalNanos),
          frozen_reason: funds.freezeReason,
          lines: lines.map(line => ({
            day: line.day,
            model: line.modelId,
            requests: Number(line.requests),
            input_tokens: Number(line.inputTokens),
            output_tokens: Number(line.outputTokens),
            gross_usd: usdText(line.grossNanos),
            share_usd: usdText(line.shareNanos),
            fee_usd: usdText(line.feeNanos),
            refunded_usd: usdText(line.refundedNanos),
            refunded_share_usd: usdText(line.refundedShareNanos),
          })),
          movements: movements.map(({ kind, amountNanos, at, reason }) => ({
            kind,
            amount_usd: usdText(amountNanos),
            at: at.toISOString(),
            reason,
          })),
        },
        [
          table(
            ['day', 'model', 'requests', 'tokens in', 'out', 'gross USD', 'share', 'fee', 'refunded'],
            lines.map(line => [
              line.day,
              line.modelId,
              ...[line.requests, line.inputTokens, line.outputTokens].map(String),
              ...[line.grossNanos, line.shareNanos, line.feeNanos, line.refundedShareNanos].map(nanos =>
                usdText(nanos),
              ),
            ]),
            'Nothing was earned on these days.',
          ),
          ...(movements.length === 0
            ? []
            : [
                table(
                  ['at', 'kind', 'USD', 'reason'],
                  movements.map(({ kind, amountNanos, at, reason }) => [
                    at.toISOString().slice(0, 16).replace('T', ' '),
                    kind,
                    usdText(amountNanos),
                    reason,
                  ]),
                  '',
                ),
              ]),
          `Balance ${usdText(funds.balanceNanos)} USD: ${usdText(funds.payableNanos)} payable${
            funds.heldUntil === null ? '' : `, ${usdText(funds.heldNanos)} held until ${funds.heldUntil}`
          }${funds.frozenAt === null ? '' : `. Payouts are frozen: ${funds.freezeReason ?? 'no reason given'}`}`,
        ].join('\n\n'),
      )
    })
}
