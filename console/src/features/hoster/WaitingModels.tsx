import type { HosterStatus } from '#api/hoster-console.ts'
import { DataTable } from '../../parts/DataTable.tsx'
import { State } from '../../parts/State.tsx'
import { When } from '../../parts/When.tsx'

type Waiting = HosterStatus['waiting'][number]

/**
 * New and changed models that are not offered yet: those that wait for their notice, their probes or the operator, and
 * why.
 */
export function WaitingModels({ waiting }: { waiting: readonly Waiting[] }) {
  return (
    <DataTable
      label="Models that wait"
      rows={waiting}
      keyOf={({ model }) => model}
      columns={[
        { title: 'New or changed', place: 'name', cell: ({ model }) => model },
        { title: 'State', place: 'figure', cell: each => <WaitingState waiting={each} /> },
        { title: 'Why', cell: each => <Reason waiting={each} /> },
      ]}
    />
  )
}

const words = {
  scheduled: { mark: 'warn', word: 'waits for the notice' },
  waiting: { mark: 'warn', word: 'waits for its probes' },
  failed: { mark: 'danger', word: 'failed its probes' },
  unapproved: { mark: 'warn', word: 'waits for the operator' },
  refused: { mark: 'danger', word: 'refused by the operator' },
} as const

function WaitingState({ waiting: { state } }: { waiting: Waiting }) {
  const { mark, word } = words[state]
  return <State state={mark}>{word}</State>
}

function Reason({ waiting: { state, applies_at, passed, problem, again_at } }: { waiting: Waiting }) {
  if (state === 'scheduled') {
    return (
      <>
        Its price rises on <When at={applies_at!} />.
      </>
    )
  }
  if (state === 'unapproved') return 'Nobody here has offered this id before, so an operator looks at it.'
  if (state === 'refused') return problem
  if (state === 'waiting') return 'Three small requests must be answered. This takes up to a minute and a half.'
  return (
    <>
      {passed} of 3 passed: {problem}.{' '}
      {again_at === null ? (
        'Send the manifest again to repeat them.'
      ) : (
        <>
          Tested again at <When at={again_at} />.
        </>
      )}
    </>
  )
}
