import { Button, Select } from '@mantine/core'
import { useState } from 'react'
import type { MemberShown } from '#api/people.ts'
import { useWrite } from '../../api/use-write.ts'
import { readAmount } from '../../format/typed-number.ts'
import { exactUsd, roundUsd } from '../../format/usd-text.ts'
import { AmountField } from '../../parts/AmountField.tsx'
import { FormDialog } from '../../parts/FormDialog.tsx'
import { Meter, windowText } from '../../parts/Meter.tsx'
import { useCustomerId } from '../../shell/use-session.ts'
import styles from './settings.module.css'

/** How much of the spend limit a member has used, with a button that changes it. */
export function MemberLimit({ member, onSet }: { member: MemberShown; onSet: () => void }) {
  const { email, limit_usd: limit, limit_reset: reset, spent_usd } = member
  const spent = spent_usd ?? 0
  return (
    <div className={styles.memberLimit}>
      {limit !== null && (
        <Meter
          label={windowText[reset]}
          used={spent}
          limit={limit}
          text={`${roundUsd(spent)} of ${roundUsd(limit)} USD`}
        />
      )}
      <Button variant="subtle" size="compact-sm" className={styles.setLimit} onClick={onSet}>
        {limit === null ? 'Set a limit' : 'Change the limit'}
        <span className="visually-hidden"> of {email}</span>
      </Button>
    </div>
  )
}

/** Sets or removes the spend limit of a member. */
export function MemberLimitDialog({ member, onClose }: { member: MemberShown; onClose: () => void }) {
  const customerId = useCustomerId()
  const [limit, setLimit] = useState(member.limit_usd === null ? '' : exactUsd(member.limit_usd))
  const [reset, setReset] = useState(member.limit_usd === null ? 'monthly' : member.limit_reset)
  const typed = readAmount(limit)
  const change = useWrite<void>(
    () => ({
      method: 'PATCH',
      path: `customers/${customerId}/people/${member.id}`,
      body: typed === '' ? { spend_limit_usd: null } : { spend_limit_usd: typed, limit_reset: reset },
    }),
    { areas: ['people', 'usage'], done: 'The limit is changed.', onDone: onClose, showsError: true },
  )
  return (
    <FormDialog
      title={`Spend limit of ${member.email}`}
      action="Save"
      sending={change}
      onSubmit={() => change.mutate()}
      onClose={onClose}
    >
      <p>
        It covers all keys that the person made, the playground included. Requests beyond it are refused, on all nodes
        within two seconds.
      </p>
      <AmountField
        label="Limit in USD"
        description="Empty: no limit."
        placeholder="none"
        value={limit}
        onText={setLimit}
        data-autofocus
      />
      <Select
        label="Resets"
        disabled={typed === ''}
        data={[
          { value: 'daily', label: 'Every day' },
          { value: 'weekly', label: 'Every Monday' },
          { value: 'monthly', label: 'Every month' },
          { value: 'none', label: 'Never' },
        ]}
        value={reset}
        onChange={value => setReset((value ?? 'monthly') as typeof reset)}
      />
    </FormDialog>
  )
}
