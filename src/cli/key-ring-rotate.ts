import type { Command } from 'commander'
import { noteAction } from '../base/db/audit-log.ts'
import { type Sql, transaction } from '../base/db/pool.ts'
import { commandLine } from '../base/domain/acting.ts'
import { ownCommand } from '../base/runtime/own-command.ts'
import {
  abandonKey,
  type NodeKeys,
  nominateKey,
  promoteKey,
  type RingKey,
  readNodeKeys,
  readRing,
} from '../base/secrets/key-ring-state.ts'
import { addMasterKey, hasKeyFile, masterKeyPath, writeMasterKeys } from '../base/secrets/master-key.ts'
import { type MasterKeys, markOf } from '../base/secrets/master-keys.ts'
import { waitForNodes } from '../base/secrets/wait-for-nodes.ts'
import { countArgument } from './arguments.ts'
import { createCommand, createSession, type Session } from './command.ts'
import { Failure } from './failure.ts'
import { hostsOf, idOf } from './key-ring-names.ts'
import { requireMasterKeys } from './require-master-key.ts'
import { withDatabase } from './with-database.ts'

export function keyRingRotateCommand(): Command {
  return createCommand(
    'rotate',
    'Replace the master key: hands a new one to all nodes, then lets them seal with it; values of the old key are sealed again in the background',
    ['key-ring rotate', 'key-ring rotate --wait 300'],
  )
    .option('--wait <seconds>', 'how long to wait until every node has the new key; default: 60', countArgument)
    .action(async options => {
      const session = createSession(options)
      const { config, output } = session
      const { former, mark } = await withDatabase(session, async pool => {
        const { keys, mark } = await transaction(pool, sql => nextKey(session, sql))
        const former = markOf(keys.current)
        output.note(`The new key is ${idOf(mark)}. Waiting until every node has it.`)
        const lacking = await waitForNodes(pool, ({ marks }) => marks.includes(mark), (options.wait ?? 60) * 1_000)
        if (lacking.length > 0) throw lacksKey(session, mark, lacking)
        await transaction(pool, async sql => {
          if (!(await promoteKey(sql, mark))) throw new Failure('Another command has rotated the key at the same time.')
          const detail = { from: idOf(former), to: idOf(mark) }
          await noteAction(sql, { ...commandLine, action: 'master_key.rotated', subject: idOf(mark), detail })
        })
        keys.use(mark)
        // After a loss of the database, the first key of the file seals.
        if (hasKeyFile(config)) writeMasterKeys(config.dataDir, keys.all)
        return { former, mark }
      })
      output.result(
        { key: idOf(mark), former: idOf(former) },
        `All nodes seal with ${idOf(mark)} within a second. ${idOf(former)} opens what it has sealed.`,
      )
      output.note(`The gateways seal old values again. See: ${ownCommand('key-ring status')}`)
      output.note(`When none is left, retire the old key: ${ownCommand('key-ring forget')}`)
    })
}

/** Returns the keys, and the mark of the one that comes next: one that was handed out before, or a new one. */
async function nextKey(session: Session, sql: Sql): Promise<{ keys: MasterKeys; mark: string }> {
  const { config } = session
  await sql.query('SELECT pg_advisory_xact_lock($1)', [ROTATION_LOCK])
  const keys = await requireMasterKeys(session, sql)
  const ring = await readRing(sql)
  const stateOf = (mark: string) => ring.find(key => key.mark === mark)?.state
  await dropLostKey(sql, keys, ring)
  const unused = keys.all.map(markOf).filter(mark => [undefined, 'next'].includes(stateOf(mark)))
  if (unused.length > 1)
    throw new Failure(
      `There are ${unused.length} new keys: ${unused.map(idOf).join(', ')}. Leave one of them, on every machine.`,
    )
  let [mark] = unused
  if (mark === undefined) {
    if (!hasKeyFile(config))
      throw new Failure(
        'The master key is in SWITCHYARD_MASTER_KEY, which this command cannot change. Add a new key behind the present one, with a comma between them, on every machine; reload or restart the gateways one after the other; then run this again. Make a key with: openssl rand -hex 32',
      )
    const added = addMasterKey(config.dataDir)
    mark = markOf(added)
    keys.replace([...keys.all, added])
  }
  await nominateKey(sql, mark)
  return { keys, mark }
}

/** "syky" in ASCII: two commands at the same time would draw two keys. */
const ROTATION_LOCK = 0x73796b79

/** Lets go of a next key that is not here. Throws Failure if a node has it. */
async function dropLostKey(sql: Sql, keys: MasterKeys, ring: readonly RingKey[]): Promise<void> {
  const next = ring.find(({ state }) => state === 'next')
  if (next === undefined || keys.all.some(key => markOf(key) === next.mark)) return
  const holders = (await readNodeKeys(sql)).filter(({ marks }) => marks.includes(next.mark))
  if (holders.length > 0)
    throw new Failure(
      `The rotation to ${idOf(next.mark)} has begun on another machine (${hostsOf(holders)}). Copy its master.key to this one, or run this command there.`,
    )
  await abandonKey(sql, next.mark)
}

function lacksKey({ config }: Session, mark: string, lacking: readonly NodeKeys[]): Failure {
  const how = hasKeyFile(config)
    ? `Copy ${masterKeyPath(config.dataDir)} to the data directory of each (mode 0600); a running gateway reads it within a second`
    : 'Add it to SWITCHYARD_MASTER_KEY of each, and reload or restart it'
  return new Failure(
    `${lacking.length} ${lacking.length === 1 ? 'node does' : 'nodes do'} not have the key ${idOf(mark)}: ${hostsOf(lacking)}. All still seal with the old key. ${how}, then run this again.`,
  )
}
