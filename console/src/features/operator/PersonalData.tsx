import { t } from '@lingui/core/macro'
import { Button } from '@mantine/core'
import { useState } from 'react'
import type { CustomerDetail } from '#api/operator/customers.ts'
import type { PersonShown } from '#api/operator/people.ts'
import { useWrite } from '../../api/use-write.ts'
import { ConfirmDialog } from '../../parts/ConfirmDialog.tsx'
import { DataExport } from '../../parts/DataExport.tsx'
import { Panel } from '../../parts/Panel.tsx'
import styles from './operator.module.css'

/** Hands out what is kept of a customer, and deletes it. */
export function CustomerData({ customer: { id, email } }: { customer: CustomerDetail }) {
  const [isAsking, setAsking] = useState(false)
  const name = email ?? id
  const erase = useWrite<void, { balance_usd: number }>(
    () => ({ method: 'DELETE', path: `operator/customers/${id}` }),
    {
      areas: ['customers'],
      done: t`The customer is deleted. Its balance and its ledger stay in the books.`,
      onDone: () => setAsking(false),
    },
  )
  return (
    <Panel title={t`What is kept`}>
      <div className={styles.buttons}>
        <DataExport path={`operator/customers/${id}/export`} label={t`Save what is kept`} />
        <Button variant="danger" onClick={() => setAsking(true)}>{t`Delete the customer`}</Button>
      </div>
      <ConfirmDialog
        isOpen={isAsking}
        title={t`Delete ${name}?`}
        name={name}
        action={t`Delete for good`}
        isBusy={erase.isPending}
        onConfirm={() => erase.mutate()}
        onClose={() => setAsking(false)}
      >
        <p>{t`All its keys are revoked. Its address, what its keys recorded, and the accounts of people who belong to nothing else are erased. Its balance and its ledger stay. This cannot be undone.`}</p>
      </ConfirmDialog>
    </Panel>
  )
}

/** Hands out what is kept of a person, and erases it. */
export function PersonDataDialog({ person: { id, email }, onClose }: { person: PersonShown; onClose: () => void }) {
  const erase = useWrite(() => ({ method: 'DELETE', path: `operator/people/${id}` }), {
    areas: ['operator-people', 'customers'],
    done: t`The person is erased.`,
    onDone: onClose,
  })
  return (
    <ConfirmDialog
      isOpen
      title={t`What is kept of ${email}`}
      name={email}
      action={t`Erase the person`}
      isBusy={erase.isPending}
      onConfirm={() => erase.mutate()}
      onClose={onClose}
    >
      <DataExport path={`operator/people/${id}/export`} label={t`Save what is kept`} />
      <p>{t`Erasing removes the address, the name, the ways to sign in and the memberships, and revokes the keys that the person made. The audit log and the books keep an id that names nobody. This cannot be undone.`}</p>
    </ConfirmDialog>
  )
}
