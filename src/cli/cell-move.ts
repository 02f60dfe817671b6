import type { Command } from 'commander'
import { noteAction } from '../base/db/audit-log.ts'
import { commandLine } from '../base/domain/acting.ts'
import { type Nanos, usdText } from '../base/domain/money.ts'
import { errorMessage } from '../base/runtime/error-message.ts'
import { armFailpoints } from '../base/runtime/failpoint.ts'
import { moveCustomer, undoMove } from '../operator/cells/move-customer.ts'
import { countArgument } from './arguments.ts'
import { createCommand, createSession, type Session } from './command.ts'
import { Failure } from './failure.ts'
import { peerNamed, requireCells } from './require-cells.ts'
import { resolveCustomer } from './resolve.ts'
import { withDatabase } from './with-database.ts'
import { withPeers } from './with-peers.ts'

const WAIT_S = 600

export function cellMoveCommand(): Command {
  return createCommand(
    'move',
    'Move a customer with its keys, people, limits and balance to another cell; a repeat goes on where it was interrupted',
    ['cell move ada@example.com --to us', 'cell move ada@example.com --to us --undo'],
  )
    .argument('<customer>', 'e-mail or id')
    .requiredOption('--to <cell>', 'a cell of cells.peers; required')
    .option('--wait <seconds>', `how long running requests may take to end; default: ${WAIT_S}`, countArgument)
    .option('--undo', 'undo a move that was interrupted before the other cell has received it')
    .action(async (emailOrId: string, options) => {
      const session = createSession(options)
      armFailpoints(session.config.failpoints)
      const order = { emailOrId, to: options.to as string, waitMs: (options.wait ?? WAIT_S) * 1_000 }
      const { customerId, email, movedNanos } = await move(session, order, options.undo === true)
      const moved = movedNanos !== null
      session.output.result(
        { customer_id: customerId, email, to: order.to, moved, balance_usd: moved ? usdText(movedNanos) : null },
        moved
          ? `${email} is in ${order.to} now, with ${usdText(movedNanos)} USD.`
          : `${email} stays in this cell, as if it had not been moved.`,
      )
    })
}

interface Order {
  readonly emailOrId: string
  readonly to: string
  readonly waitMs: number
}

interface Done {
  readonly customerId: string
  readonly email: string
  /** Null: the move was undone. */
  readonly movedNanos: Nanos | null
}

function move(session: Session, { emailOrId, to, waitMs }: Order, isUndone: boolean): Promise<Done> {
  const cells = requireCells(session)
  const peer = peerNamed(cells, to)
  return withDatabase(session, pool =>
    withPeers([peer], async databases => {
      const { customerId, email } = await resolveCustomer(pool, emailOrId)
      const [there] = databases
      if (there === undefined) throw new Error('no database of the peer')
      const pair = { customerId, from: { name: cells.name, pool }, to: there }
      const movedNanos = await (isUndone ? undo(pair, email) : moveCustomer({ ...pair, waitMs })).catch(error => {
        throw error instanceof Failure ? error : new Failure(`${email} was not moved: ${errorMessage(error)}`)
      })
      const action = movedNanos === null ? 'customer.move_undone' : 'customer.moved'
      await noteAction(pool, { ...commandLine, action, subject: customerId, customerId, detail: { to } })
      return { customerId, email, movedNanos }
    }),
  )
}

async function undo(pair: Parameters<typeof undoMove>[0], email: string): Promise<null> {
  const isUndone = await undoMove(pair)
  if (isUndone === undefined) throw new Failure(`${email} has no move that could be undone. Nothing was changed.`)
  if (!isUndone) throw new Failure(`${pair.to.name} has received ${email} already. Repeat the move to end it.`)
  return null
}
