import { Button, Modal, TextInput } from '@mantine/core'
import { useState } from 'react'
import type { HosterReview } from '#api/operator/supply.ts'
import { useWrite } from '../../api/use-write.ts'
import { FormProblem } from '../../parts/FormProblem.tsx'
import styles from './operator.module.css'

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
        ? 'Approve'
        : state === 'paused' || state === 'suspended'
          ? 'Resume'
          : 'Approve without the checks',
    suspended: 'Suspend',
    retired: state === 'applied' || state === 'pending' || state === 'verified' ? 'Reject' : 'Retire',
    pending: 'Verify again',
  }
  return next.flatMap(to => {
    const label = labels[to]
    return label === undefined ? [] : [{ to, label, isMain: to === 'active' && state === 'verified' }]
  })
}

const effects: Partial<Record<State, string>> = {
  active: 'It gets requests at once.',
  suspended: 'It gets no further requests. Running requests end as usual, and what it has earned stays payable.',
  retired: 'It never comes back, and its keys end. What it has earned stays payable.',
  pending: 'It gets no requests until all checks have passed again.',
}

/** Changes the state of a hoster, with a reason for the hoster and the audit log. */
export function HosterStateDialog({ hoster, to, onClose }: { hoster: HosterReview; to: State; onClose: () => void }) {
  const [reason, setReason] = useState('')
  const label = stateActions(hoster).find(each => each.to === to)?.label ?? to
  const change = useWrite(
    () => ({ method: 'PATCH', path: `operator/hosters/${hoster.id}`, body: { state: to, reason } }),
    {
      areas: ['supply', 'overview', 'hoster', 'hosters'],
      done: `${hoster.name} is ${to}.`,
      onDone: onClose,
      showsError: true,
    },
  )
  return (
    <Modal opened onClose={onClose} title={`${label}: ${hoster.name}`}>
      <form
        className={styles.form}
        onSubmit={event => {
          event.preventDefault()
          change.mutate()
        }}
      >
        <p>{effects[to]}</p>
        <TextInput
          label="Reason"
          description="The hoster reads it, and the audit log has it."
          required
          maxLength={200}
          value={reason}
          onChange={event => setReason(event.currentTarget.value)}
          data-autofocus
        />
        <FormProblem error={change.error} />
        <div className={styles.buttons}>
          <Button type="submit" variant={to === 'active' ? 'filled' : 'danger'} loading={change.isPending}>
            {label}
          </Button>
          <Button variant="default" onClick={onClose}>
            Cancel
          </Button>
        </div>
      </form>
    </Modal>
  )
}
