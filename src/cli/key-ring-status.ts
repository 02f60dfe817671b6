import type { Command } from 'commander'
import { isResealed, readNodeKeys, readRing } from '../base/secrets/key-ring-state.ts'
import { markOf } from '../base/secrets/master-keys.ts'
import { countSealed } from '../base/secrets/reseal.ts'
import { nameOfPlace } from '../base/secrets/sealed-places.ts'
import { renewEvidence } from '../money/ledger/renew-evidence.ts'
import { createCommand, createSession } from './command.ts'
import { idOf } from './key-ring-names.ts'
import { timeText } from './output.ts'
import { evidenceOf, requireMasterKeys } from './require-master-key.ts'
import { table } from './table.ts'
import { withDatabase } from './with-database.ts'

export function keyRingStatusCommand(): Command {
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
