import type { HosterStatus } from '#api/hoster-console.ts'
import { DataTable } from '../../parts/DataTable.tsx'
import { State } from '../../parts/State.tsx'
import { When } from '../../parts/When.tsx'

type Waiting = HosterStatus['waiting'][number]

/** New and changed models that are not offered yet: those that wait for their notice or their probes, and why probes failed. */
export function WaitingModels({ waiting }: { waiting: readonly Waiting[] }) {
  return (
    <DataTable
      label="Models that wait"
      rows={waiting}
      keyOf={({ model }) => model}
      columns={[
        { title: 'New or changed', place: 'name', cell: ({ model }) => model },
        { title: 'State', place: 'money', cell: each => <WaitingState waiting={each} /> },
        { title: 'Why', cell: each => <Reason waiting={each} /> },
      ]}
    />
  )
}

function WaitingState({ waiting: { state } }: { waiting: Waiting }) {
  if (state === 'failed') return <State state="danger">failed its probes</State>
  return <State state="warn">{state === 'scheduled' ? 'waits for the notice' : 'waits for its probes'}</State>
}

function Reason({ waiting: { state, applies_at, passed, problem, again_at } }: { waiting: Waiting }) {
  if (state === 'scheduled') {
    return (
      <>
        Its price rises on <When at={applies_at!} />.
      </>
    )
  }
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
