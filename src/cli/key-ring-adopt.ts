import type { Command } from 'commander'
import { noteAction } from '../base/db/audit-log.ts'
import { transaction } from '../base/db/pool.ts'
import { commandLine } from '../base/domain/acting.ts'
import { adoptKey, readMark, readNodeKeys } from '../base/secrets/key-ring-state.ts'
import { findMasterKeys } from '../base/secrets/master-key.ts'
import { markOf } from '../base/secrets/master-keys.ts'
import { createCommand, createSession } from './command.ts'
import { confirm } from './confirm.ts'
import { Failure } from './failure.ts'
import { hostsOf, idOf } from './key-ring-names.ts'
import { withDatabase } from './with-database.ts'

export function keyRingAdoptCommand(): Command {
  return createCommand(
    'adopt',
    'Seal with the key of this machine although the installation has another one, which is lost',
    ['key-ring adopt', 'key-ring adopt --yes'],
  )
    .option('--yes', 'do not ask for confirmation')
    .action(async options => {
      const session = createSession(options)
      const { config, output } = session
      const adopted = await withDatabase(session, async pool => {
        const keys = findMasterKeys(config)
        if (keys === undefined) throw new Failure(`There is no master key in ${config.dataDir}. Nothing was changed.`)
        const mark = markOf(keys.current)
        const former = await readMark(pool)
        if (former === mark) return { mark, former: null }
        const nodes = await readNodeKeys(pool)
        if (nodes.length > 0)
          throw new Failure(`Stop all gateways first: ${hostsOf(nodes)}. They may have the present key.`)
        const question = `Seal with ${idOf(mark)} from now on? What ${idOf(former ?? 'no key')} has sealed cannot be opened without it.`
        if (options.yes !== true) await confirm(session, question, 'Add --yes to confirm.')
        await transaction(pool, async sql => {
          await adoptKey(sql, mark)
          const detail = { from: former === undefined ? null : idOf(former), to: idOf(mark) }
          await noteAction(sql, { ...commandLine, action: 'master_key.adopted', subject: idOf(mark), detail })
        })
        return { mark, former: former ?? null }
      })
      const { mark, former } = adopted
      output.result(
        { key: idOf(mark), former: former === null ? null : idOf(former) },
        former === null ? `${idOf(mark)} seals already.` : `${idOf(mark)} seals from the next start on.`,
      )
    })
}
