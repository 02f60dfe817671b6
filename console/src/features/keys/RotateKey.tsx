import { Select } from '@mantine/core'
import { useState } from 'react'
import type { Key } from '#api/keys.ts'
import { useWrite } from '../../api/use-write.ts'
import { FormDialog } from '../../parts/FormDialog.tsx'
import { useCustomerId } from '../../shell/use-session.ts'
import { KeySecret } from './KeySecret.tsx'
import { keyTexts as texts } from './key-texts.ts'

/** Replaces a key, and shows the new one once. The former one of a key that is paused or has leaked ends at once. */
export function RotateKey({
  rotated: { id, name, paused_at },
  hasLeaked = false,
  onClose,
}: {
  rotated: Key
  hasLeaked?: boolean
  onClose: () => void
}) {
  const customerId = useCustomerId()
  const endsNow = hasLeaked || paused_at !== null
  const [grace, setGrace] = useState(endsNow ? '0' : '86400')
  const rotate = useWrite<number, Key & { key: string }>(
    grace_seconds => ({ method: 'POST', path: `customers/${customerId}/keys/${id}/rotate`, body: { grace_seconds } }),
    { areas: ['keys', 'key-spend'], showsError: true },
  )
  if (rotate.data !== undefined) {
    return (
      <KeySecret title={texts.newKeyOf(name)} secret={rotate.data.key} onClose={onClose}>
        {rotate.data.paused_at !== null && <p>{texts.pausedByOperator}</p>}
      </KeySecret>
    )
  }
  return (
    <FormDialog
      title={texts.rotateTitle(name)}
      action={texts.rotateAction}
      sending={rotate}
      onSubmit={() => rotate.mutate(Number(grace))}
      onClose={onClose}
    >
      <p>{endsNow ? texts.rotateNowText : texts.rotateText}</p>
      {!endsNow && (
        <Select
          label={texts.grace}
          data={[...texts.graces]}
          value={grace}
          onChange={value => setGrace(value ?? grace)}
          allowDeselect={false}
          data-autofocus
        />
      )}
    </FormDialog>
  )
}
