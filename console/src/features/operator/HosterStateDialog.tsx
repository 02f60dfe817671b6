import { t } from '@lingui/core/macro'
import type { HosterReview } from '#api/operator/supply.ts'
import { codeText } from '../../texts/code-text.ts'
import { ReasonDialog } from './ReasonDialog.tsx'

type State = HosterReview['state']

interface StateAction {
  readonly to: State
  readonly label: string
  readonly isMain: boolean
}

/** What an operator can do with the state of a hoster now. */
export function stateActions({ state, next_states: next }: Pick<HosterReview, 'state' | 'next_states'>): StateAction[] {
  const labels: Partial<Record<State, string>> = {
    active:
      state === 'verified'
        ? t`Approve`
        : state === 'paused' || state === 'suspended'
          ? t`Resume`
          : t`Approve without the checks`,
    suspended: t`Suspend`,
    retired: state === 'applied' || state === 'pending' || state === 'verified' ? t`Reject` : t`Retire`,
    pending: t`Verify again`,
  }
  return next.flatMap(to => {
    const label = labels[to]
    return label === undefined ? [] : [{ to, label, isMain: to === 'active' && state === 'verified' }]
  })
}

const effects: Partial<Record<State, string>> = {
  active: t`It gets requests at once.`,
  suspended: t`It gets no further requests. Running requests end as usual, and what it has earned stays payable.`,
  retired: t`It never comes back, and its keys end. What it has earned stays payable.`,
  pending: t`It gets no requests until all checks have passed again.`,
}

/** Changes the state of a hoster, with a reason for the hoster and the audit log. */
export function HosterStateDialog({ hoster, to, onClose }: { hoster: HosterReview; to: State; onClose: () => void }) {
  const label = stateActions(hoster).find(each => each.to === to)?.label ?? to
  return (
    <ReasonDialog
      title={`${label}: ${hoster.name}`}
      action={label}
      isDanger={to !== 'active'}
      send={reason => ({ method: 'PATCH', path: `operator/hosters/${hoster.id}`, body: { state: to, reason } })}
      done={t`${hoster.name} is ${codeText(to)}.`}
      onClose={onClose}
    >
      {effects[to]}
    </ReasonDialog>
  )
}
