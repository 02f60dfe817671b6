import type { Command } from 'commander'
import { noteAction } from '../base/db/audit-log.ts'
import { type Pool, type Sql, transaction } from '../base/db/pool.ts'
import { commandLine } from '../base/domain/acting.ts'
import { ownCommand } from '../base/runtime/own-command.ts'
import {
  abandonKey,
  adoptKey,
  forgetKeys,
  formerKeysMissing,
  isResealed,
  type NodeKeys,
  nominateKey,
  promoteKey,
  type RingKey,
  readMark,
  readNodeKeys,
  readRing,
} from '../base/secrets/key-ring-state.ts'
import { addMasterKey, findMasterKeys, isInFile, pathIn, writeMasterKeys } from '../base/secrets/master-key.ts'
import { type MasterKeys, markOf } from '../base/secrets/master-keys.ts'
import { countSealed, resealAll } from '../base/secrets/reseal.ts'
import { nameOfPlace } from '../base/secrets/sealed-places.ts'
import { waitForNodes } from '../base/secrets/wait-for-nodes.ts'
import { renewEvidence } from '../money/ledger/renew-evidence.ts'
import { countArgument } from './arguments.ts'
import { createCommand, createCommandGroup, createSession, type Session } from './command.ts'
import { confirm } from './confirm.ts'
import { Failure } from './failure.ts'
import { timeText } from './output.ts'
import { evidenceOf, requireMasterKeys } from './require-master-key.ts'
import { table } from './table.ts'
import { withDatabase } from './with-database.ts'

export function keyRingCommands(): Command {
  return createCommandGroup('key-ring', 'Replace the master key while the gateways serve', [
    status(),
    rotate(),
    forget(),
    adopt(),
  ])
}

/** How keys are named: the beginning of their mark. */
const idOf = (mark: string) => mark.slice(0, 12)

function status(): Command {
  return createCommand('status', 'Show the master keys, the nodes that have them, and what each key has sealed', [
    'key-ring status',
  ]).action(async options => {
    const session = createSession(options)
    const { ring, own, nodes, counts, evidence, isDone } = await withDatabase(session, async pool => {
      const keys = await requireMasterKeys(session, pool)
      return {
        own: keys.all.map(markOf),
        ring: await readRing(pool),
        nodes: await readNodeKeys(pool),
        counts: await countSealed(pool, keys),
        evidence: await renewEvidence(pool, evidenceOf(keys), { dryRun: true }),
        isDone: await isResealed(pool),
      }
    })
    const unlisted = own.filter(mark => ring.every(key => key.mark !== mark))
    const shown = [
      ...ring.map(({ mark, state, since }) => ({ id: idOf(mark), state: state as string, since, mark })),
      ...unlisted.map(mark => ({ id: idOf(mark), state: 'new', since: null, mark })),
    ]
    const places = [
      ...counts.map(({ place, ...count }) => ({ name: nameOfPlace(place), ...count })),
      { name: 'evidence of credit', current: null, former: evidence.former, unknown: evidence.invalid },
    ]
    session.output.result(
      {
        keys: shown.map(({ id, state, since, mark }) => ({
          id,
          state,
          since: since?.toISOString() ?? null,
          is_here: own.includes(mark),
        })),
        nodes: nodes.map(({ nodeId, host, marks }) => ({ id: nodeId, host, keys: marks.map(idOf) })),
        places,
        is_resealed: isDone,
      },
      [
        table(
          ['key', 'state', 'since (UTC)', 'on this machine'],
          shown.map(({ id, state, since, mark }) => [id, state, timeText(since), own.includes(mark) ? 'yes' : 'no']),
          '',
        ),
        table(
          ['node', 'host', 'seals with', 'has'],
          nodes.map(({ nodeId, host, marks }) => [
            nodeId,
            host ?? '-',
            marks[0] === undefined ? '-' : idOf(marks[0]),
            marks.map(idOf).join(' '),
          ]),
          'No gateway runs.',
        ),
        table(
          ['sealed values', 'current key', 'former keys', 'unreadable'],
          places.map(({ name, current, former, unknown }) => [
            name,
            current === null ? '-' : String(current),
            String(former),
            String(unknown),
          ]),
          '',
        ),
      ].join('\n\n'),
    )
    if (!isDone) session.output.note('A job of the gateways seals the values of former keys again, once a minute.')
  })
}

function rotate(): Command {
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
        if (isInFile(config)) writeMasterKeys(config.dataDir, keys.all)
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
    if (!isInFile(config))
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
  const how = isInFile(config)
    ? `Copy ${pathIn(config.dataDir)} to the data directory of each (mode 0600); a running gateway reads it within a second`
    : 'Add it to SWITCHYARD_MASTER_KEY of each, and reload or restart it'
  return new Failure(
    `${lacking.length} ${lacking.length === 1 ? 'node does' : 'nodes do'} not have the key ${idOf(mark)}: ${hostsOf(lacking)}. All still seal with the old key. ${how}, then run this again.`,
  )
}

const hostsOf = (nodes: readonly NodeKeys[]) =>
  [...new Set(nodes.map(({ host, nodeId }) => host ?? nodeId))].toSorted().join(', ')

function forget(): Command {
  return createCommand('forget', 'Retire the former master keys, once nothing is sealed with them', [
    'key-ring forget',
    'key-ring forget --yes',
  ])
    .option('--yes', 'do not ask for confirmation')
    .option('--lost', 'also forget keys that no machine has any more, and what they have sealed')
    .action(async options => {
      const session = createSession(options)
      const { config, output } = session
      const forgotten = await withDatabase(session, async pool => {
        const keys = await requireMasterKeys(session, pool)
        const former = (await readRing(pool)).filter(({ state }) => state === 'former')
        if (former.length > 0) {
          await requireNothingSealed(pool, keys)
          if (options.lost !== true) await requireNothingUnreadable(pool, keys)
          for (const line of lossesOf(former)) output.note(line)
          if (options.yes !== true) await confirm(session, `Forget ${former.length} former keys?`, 'Use --yes.')
          await transaction(pool, async sql => {
            for (const mark of await forgetKeys(sql))
              await noteAction(sql, { ...commandLine, action: 'master_key.forgotten', subject: idOf(mark) })
          })
        }
        // Also on another machine, whose file still has keys that were forgotten here.
        const ring = await readRing(pool)
        const isForgotten = (key: Buffer) =>
          ring.some(({ mark, state }) => mark === markOf(key) && state === 'forgotten')
        const kept = keys.all.filter(key => !isForgotten(key))
        const removed = keys.all.filter(isForgotten).map(markOf)
        if (removed.length > 0 && isInFile(config)) {
          // The machine that forgot them may not have had them.
          if (former.length === 0) await requireNothingSealed(pool, keys)
          writeMasterKeys(config.dataDir, kept)
        }
        return { marks: former.map(({ mark }) => mark), removed }
      })
      const { marks, removed } = forgotten
      const isFile = isInFile(config)
      output.result(
        { forgotten: marks.map(idOf), removed_here: isFile ? removed.map(idOf) : [] },
        marks.length + removed.length === 0
          ? 'There is no former key.'
          : isFile
            ? `Removed ${removed.length} former keys from ${pathIn(config.dataDir)}.`
            : `Remove ${removed.map(idOf).join(', ')} from SWITCHYARD_MASTER_KEY: all but the first key.`,
      )
      if (marks.length > 0 && isFile) output.note('On other machines, run this command too, or copy the file.')
    })
}

/** Seals again what is left. Throws Failure while a former key is needed. */
async function requireNothingSealed(pool: Pool, keys: MasterKeys): Promise<void> {
  const current = markOf(keys.current)
  const lacking = await waitForNodes(pool, ({ marks }) => marks[0] === current, 10_000)
  if (lacking.length > 0)
    throw new Failure(
      `${hostsOf(lacking)} may still seal with a former key. Restart these nodes, or wait, and try again.`,
    )
  await resealAll({ pools: { gateway: pool, desk: pool }, keys })
  await renewEvidence(pool, evidenceOf(keys))
  const left = (await countSealed(pool, keys)).filter(({ former }) => former > 0)
  const { former: signed } = await renewEvidence(pool, evidenceOf(keys), { dryRun: true })
  const names = [
    ...left.map(({ place, former }) => `${former} in ${nameOfPlace(place)}`),
    ...(signed > 0 ? [`${signed} pieces of evidence of credit`] : []),
  ]
  if (names.length > 0)
    throw new Failure(`Former keys are still needed: ${names.join(', ')}. Nothing was changed. Try again.`)
}

/** Throws Failure while values cannot be opened here, and this machine lacks a former key that may open them. */
async function requireNothingUnreadable(pool: Pool, keys: MasterKeys): Promise<void> {
  const missing = await formerKeysMissing(pool, keys)
  if (missing.length === 0) return
  const counts = (await countSealed(pool, keys)).filter(({ unknown }) => unknown > 0)
  const { invalid } = await renewEvidence(pool, evidenceOf(keys), { dryRun: true })
  const names = [
    ...counts.map(({ place, unknown }) => `${unknown} in ${nameOfPlace(place)}`),
    ...(invalid > 0 ? [`${invalid} pieces of evidence of credit`] : []),
  ]
  if (names.length > 0)
    throw new Failure(
      `This machine lacks ${missing.map(idOf).join(', ')}, which may have sealed ${names.join(', ')}. Run this where these keys are, or copy them from a backup. If they are lost for good, add --lost. Nothing was changed.`,
    )
}

function adopt(): Command {
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

function lossesOf(former: readonly RingKey[]): string[] {
  const replaced = timeText(former.reduce((newest, { since }) => (since > newest ? since : newest), new Date(0)))
  return [
    `Clients keep compacted conversations (POST /v1/responses/compact). Those of before ${replaced} UTC are refused once the key is forgotten.`,
    `Backups of before then need the former key. Those of "${ownCommand('backup')}" contain it; with SWITCHYARD_MASTER_KEY, keep it with them.`,
  ]
}
