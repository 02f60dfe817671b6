import type { Command } from 'commander'
import { noteAction } from '../base/db/audit-log.ts'
import { commandLine } from '../base/domain/acting.ts'
import { linkCell } from '../operator/cells/link-cell.ts'
import { createCommand, createSession } from './command.ts'
import { peersWithDatabase, requireCells } from './require-cells.ts'
import { withDatabase } from './with-database.ts'
import { withPeers } from './with-peers.ts'

export function cellLinkCommand(): Command {
  return createCommand(
    'link',
    'Publish which keys this cell serves, and subscribe to what the other cells publish; repeats change nothing',
    ['cell link'],
  ).action(async options => {
    const session = createSession(options)
    const cells = requireCells(session)
    const peers = peersWithDatabase(cells)
    const { isNew, added, waiting } = await withDatabase(session, async pool => {
      const linked = await withPeers(peers, databases => linkCell(pool, cells.name, databases))
      if (linked.isNew || linked.added.length > 0)
        await noteAction(pool, {
          ...commandLine,
          ...{ action: 'cell.linked', subject: cells.name, detail: { peers: linked.added } },
        })
      return linked
    })
    session.output.result(
      { cell: cells.name, is_new: isNew, added, waiting },
      added.length === 0
        ? `${cells.name} publishes its keys, and follows ${peers.length - waiting.length} of ${peers.length} other cells.`
        : `${cells.name} follows ${added.join(', ')} now.`,
    )
    session.output.note(
      waiting.length === 0
        ? 'Each cell follows the others itself: run this command in all of them.'
        : `These cells publish no keys yet: ${waiting.join(', ')}. Run this command in those cells, then again in this one.`,
    )
  })
}
