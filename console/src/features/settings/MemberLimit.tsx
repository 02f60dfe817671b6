import { t } from '@lingui/core/macro'
import { Trans } from '@lingui/react/macro'
import { Button, Select } from '@mantine/core'
import { useState } from 'react'
import type { MemberShown } from '#api/people.ts'
import { useWrite } from '../../api/use-write.ts'
import { readAmount } from '../../format/typed-number.ts'
import { exactUsd, roundUsd } from '../../format/usd-text.ts'
import { AmountField } from '../../parts/AmountField.tsx'
import { FormDialog } from '../../parts/FormDialog.tsx'
import { Field } from '../../parts/FormFields.tsx'
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
          text={t`${roundUsd(spent)} of ${roundUsd(limit)} USD`}
        />
      )}
      <Button variant="subtle" size="compact-sm" className={styles.setLimit} onClick={onSet}>
        {limit === null ? t`Set a limit` : t`Change the limit`}
        <span className="visually-hidden">
          <Trans> of {email}</Trans>
        </span>
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
    { areas: ['people', 'usage'], done: t`The limit is changed.`, onDone: onClose, showsError: true },
  )
  return (
    <FormDialog
      title={t`Spend limit of ${member.email}`}
      action={t`Save`}
      sending={change}
      onSubmit={() => change.mutate()}
      onClose={onClose}
    >
      <p>{t`It covers all keys that the person made, the playground included. Requests beyond it are refused within two seconds.`}</p>
      <Field name="spend_limit_usd">
        <AmountField
          label={t`Limit in USD`}
          description={t`Empty: no limit.`}
          placeholder="none"
          value={limit}
          onText={setLimit}
          data-autofocus
        />
      </Field>
      <Select
        label={t`Resets`}
        disabled={typed === ''}
        data={[
          { value: 'daily', label: t`Every day` },
          { value: 'weekly', label: t`Every Monday` },
          { value: 'monthly', label: t`Every month` },
          { value: 'none', label: t`Never` },
        ]}
        value={reset}
        onChange={value => setReset((value ?? 'monthly') as typeof reset)}
      />
    </FormDialog>
  )
}
