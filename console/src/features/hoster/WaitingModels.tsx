import { t } from '@lingui/core/macro'
import { Trans } from '@lingui/react/macro'
import type { HosterStatus } from '#api/hoster-console.ts'
import { DataTable } from '../../parts/DataTable.tsx'
import { State } from '../../parts/State.tsx'
import { When } from '../../parts/When.tsx'
import { problemText } from '../../texts/code-text.ts'

type Waiting = HosterStatus['waiting'][number]

/**
 * New and changed models that are not offered yet: those that wait for their notice, their probes or the operator, and
 * why.
 */
export function WaitingModels({ waiting }: { waiting: readonly Waiting[] }) {
  return (
    <DataTable
      label={t`Models that wait`}
      rows={waiting}
      keyOf={({ model }) => model}
      columns={[
        { title: t`New or changed`, place: 'name', cell: ({ model }) => model, sortBy: ({ model }) => model },
        { title: t`State`, place: 'figure', cell: each => <WaitingState waiting={each} /> },
        { title: t`Why`, cell: each => <Reason waiting={each} /> },
      ]}
    />
  )
}

const words = {
  scheduled: { mark: 'warn', word: t`waits for the notice` },
  waiting: { mark: 'warn', word: t`waits for its probes` },
  failed: { mark: 'danger', word: t`failed its probes` },
  unapproved: { mark: 'warn', word: t`waits for the operator` },
  refused: { mark: 'danger', word: t`refused by the operator` },
} as const

function WaitingState({ waiting: { state } }: { waiting: Waiting }) {
  const { mark, word } = words[state]
  return <State state={mark}>{word}</State>
}

function Reason({ waiting: { state, applies_at, passed, again_at, ...found } }: { waiting: Waiting }) {
  const problem = problemText(found)
  if (state === 'scheduled') {
    return (
      <Trans>
        Its price rises on <When at={applies_at!} />.
      </Trans>
    )
  }
  if (state === 'unapproved') return t`Nobody here has offered this id before, so an operator looks at it.`
  if (state === 'refused') return problem
  if (state === 'waiting') return t`Three small requests must be answered. This takes up to a minute and a half.`
  return (
    <Trans>
      {passed} of 3 passed: {problem}.{' '}
      {again_at === null ? (
        t`Send the manifest again to repeat them.`
      ) : (
        <Trans>
          Tested again at <When at={again_at} />.
        </Trans>
      )}
    </Trans>
  )
}
