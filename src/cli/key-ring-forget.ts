import type { Command } from 'commander'
import { noteAction } from '../base/db/audit-log.ts'
import { type Pool, transaction } from '../base/db/pool.ts'
import { commandLine } from '../base/domain/acting.ts'
import { ownCommand } from '../base/runtime/own-command.ts'
import { forgetKeys, type RingKey, readRing } from '../base/secrets/key-ring-state.ts'
import { findMasterKeys, hasKeyFile, masterKeyPath, writeMasterKeys } from '../base/secrets/master-key.ts'
import { type MasterKeys, markOf } from '../base/secrets/master-keys.ts'
import { createCommand, createSession, type Session } from './command.ts'
import { confirm } from './confirm.ts'
import { counted } from './counted.ts'
import { idOf } from './key-ring-names.ts'
import { requireNothingSealed, requireNothingUnreadable } from './nothing-sealed.ts'
import { timeText } from './output.ts'
import { requireMasterKeys } from './require-master-key.ts'
import { withDatabase } from './with-database.ts'

export function keyRingForgetCommand(): Command {
  return createCommand('forget', 'Retire the former master keys, once nothing is sealed with them', [
    'key-ring forget',
    'key-ring forget --yes',
  ])
    .option('--yes', 'do not ask for confirmation')
    .option('--lost', 'also forget keys that no machine has any more, and what they have sealed')
    .action(async options => {
      const session = createSession(options)
      const { config, output } = session
      const isFile = hasKeyFile(config)
      const written = (findMasterKeys(config)?.all ?? []).map(markOf)
      const { forgotten, kept } = await withDatabase(session, async pool => {
        const keys = await requireMasterKeys(session, pool)
        const forgotten = await forgetFormer(session, pool, { keys, options })
        const kept = await notForgotten(pool, keys)
        if (isFile && kept.length < keys.all.length) {
          // Another machine has forgotten these keys, perhaps without having had them.
          if (forgotten.length === 0) await requireNothingSealed(pool, keys)
          writeMasterKeys(config.dataDir, kept)
        }
        return { forgotten, kept: kept.map(markOf) }
      })
      const removed = written.filter(mark => !kept.includes(mark))
      output.result(
        { forgotten: forgotten.map(idOf), removed_here: isFile ? removed.map(idOf) : [] },
        forgotten.length + removed.length === 0 ? 'There is no former key.' : removalText(config, { written, removed }),
      )
      if (forgotten.length > 0)
        output.note(
          isFile
            ? 'On other machines, run this command too, or copy the file.'
            : 'On other machines, run this command too: their variable may have another order.',
        )
    })
}

/** Returns the marks of the keys that it forgot. */
async function forgetFormer(
  session: Session,
  pool: Pool,
  { keys, options }: { readonly keys: MasterKeys; readonly options: { readonly yes?: true; readonly lost?: true } },
): Promise<readonly string[]> {
  const former = (await readRing(pool)).filter(({ state }) => state === 'former')
  if (former.length === 0) return []
  await requireNothingSealed(pool, keys)
  if (options.lost !== true) await requireNothingUnreadable(pool, keys)
  for (const line of lossesOf(former)) session.output.note(line)
  if (options.yes !== true) await confirm(session, `Forget ${counted(former.length, 'former key')}?`, 'Use --yes.')
  return transaction(pool, async sql => {
    const marks = former.map(({ mark }) => mark)
    const forgotten = await forgetKeys(sql, marks)
    for (const mark of forgotten)
      await noteAction(sql, { ...commandLine, action: 'master_key.forgotten', subject: idOf(mark) })
    return forgotten
  })
}

function lossesOf(former: readonly RingKey[]): string[] {
  const replaced = timeText(former.reduce((newest, { since }) => (since > newest ? since : newest), new Date(0)))
  return [
    `Clients keep compacted conversations (POST /v1/responses/compact). Those of before ${replaced} UTC are refused once the key is forgotten.`,
    `Backups of before then need the former key. Those of "${ownCommand('backup')}" contain it; with SWITCHYARD_MASTER_KEY, keep it with them.`,
  ]
}

async function notForgotten(pool: Pool, { all }: MasterKeys): Promise<readonly Buffer[]> {
  const ring = await readRing(pool)
  const forgotten = new Set(ring.filter(({ state }) => state === 'forgotten').map(({ mark }) => mark))
  return all.filter(key => !forgotten.has(markOf(key)))
}

/**
 * Reports the keys that were removed from the file, or that the operator has to remove from the variable. There it names their
 * places, because an operator cannot tell a key by its mark. The first key is not always the current one.
 *
 * @param marks.written in the order of the file or the variable
 */
function removalText(
  config: Session['config'],
  { written, removed }: { readonly written: readonly string[]; readonly removed: readonly string[] },
): string {
  if (removed.length === 0) return 'This machine has no forgotten key.'
  if (hasKeyFile(config))
    return `Removed ${counted(removed.length, 'former key')} from ${masterKeyPath(config.dataDir)}.`
  const places = (isRemoved: boolean) =>
    written
      .flatMap((mark, index) => (removed.includes(mark) === isRemoved ? [`number ${index + 1} (${idOf(mark)})`] : []))
      .join(', ')
  return `Of the ${written.length} keys in SWITCHYARD_MASTER_KEY, remove ${places(true)} and keep ${places(false)}.`
}
