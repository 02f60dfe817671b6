import type { Command } from 'commander'
import { usdText } from '../base/domain/money.ts'
import { sumCells } from '../operator/cells/sum-cells.ts'
import { createCommand, createSession } from './command.ts'
import { Failure } from './failure.ts'
import { peersWithDatabase, requireCells } from './require-cells.ts'
import { table } from './table.ts'
import { withDatabase } from './with-database.ts'
import { withPeers } from './with-peers.ts'

export function cellSumsCommand(): Command {
  return createCommand('sums', 'Sum the books of all cells, and check that what left one cell is in another', [
    'cell sums',
    'cell sums --json',
  ]).action(async options => {
    const session = createSession(options)
    const cells = requireCells(session)
    const sums = await withDatabase(session, pool =>
      withPeers(peersWithDatabase(cells), databases => sumCells([{ name: cells.name, pool }, ...databases])),
    )
    const kinds = [...sums.total.accounts.keys()].sort()
    const columns = [...sums.cells, { name: 'all', ...sums.total }]
    session.output.result(
      {
        cells: columns.map(({ name, customers, requests, accounts }) => ({
          name,
          customers: Number(customers),
          requests: Number(requests),
          accounts_usd: Object.fromEntries(kinds.map(kind => [kind, usdText(accounts.get(kind) ?? 0n)])),
        })),
        in_transit_usd: usdText(sums.inTransitNanos),
        wrong_moves: [...sums.wrongMoves],
        ok: sums.isExact,
      },
      table(
        ['', ...columns.map(({ name }) => name)],
        [
          ['customers', ...columns.map(({ customers }) => String(customers))],
          ['requests', ...columns.map(({ requests }) => String(requests))],
          ...kinds.map(kind => [kind, ...columns.map(({ accounts }) => usdText(accounts.get(kind) ?? 0n))]),
        ],
        '',
      ),
    )
    if (sums.inTransitNanos > 0n)
      session.output.note(`${usdText(sums.inTransitNanos)} USD are in transit: repeat the moves that were interrupted.`)
    if (!sums.isExact)
      throw new Failure(
        `The books of the cells do not add up. Moves with different ends: ${sums.wrongMoves.join(', ') || 'none'}.`,
      )
  })
}
