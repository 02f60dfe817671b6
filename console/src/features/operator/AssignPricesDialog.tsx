import { t } from '@lingui/core/macro'
import { Select } from '@mantine/core'
import { useState } from 'react'
import { useWrite } from '../../api/use-write.ts'
import { FormDialog } from '../../parts/FormDialog.tsx'
import { ReasonInput } from './ReasonInput.tsx'

/**
 * Gives a customer or an account tier a price group.
 *
 * @param props.path where the choice is sent
 * @param props.none what it means to have no group
 */
export function AssignPricesDialog({
  title,
  path,
  none,
  names,
  current,
  onClose,
}: {
  title: string
  path: string
  none: string
  names: readonly string[]
  current: string | null
  onClose: () => void
}) {
  const [name, setName] = useState(current ?? '')
  const [reason, setReason] = useState('')
  const assign = useWrite(
    () => ({ method: 'PUT', path: `operator/${path}`, body: { price_group: name === '' ? null : name, reason } }),
    { areas: ['price-groups'], done: t`The prices apply to new requests.`, onDone: onClose, showsError: true },
  )
  return (
    <FormDialog title={title} action={t`Save`} sending={assign} onSubmit={() => assign.mutate()} onClose={onClose}>
      <Select
        label={t`Price group`}
        data={[{ value: '', label: none }, ...names.map(value => ({ value, label: value }))]}
        value={name}
        onChange={value => setName(value ?? '')}
        data-autofocus
      />
      <ReasonInput value={reason} onChange={setReason} />
    </FormDialog>
  )
}
