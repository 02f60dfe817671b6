import { Select } from '@mantine/core'
import { useState } from 'react'
import type { Key } from '#api/keys.ts'
import { useWrite } from '../../api/use-write.ts'
import { FormDialog } from '../../parts/FormDialog.tsx'
import { useCustomerId } from '../../shell/use-session.ts'
import { KeySecret } from './KeySecret.tsx'
import { keyTexts as texts } from './key-texts.ts'

/** Replaces a key, and shows the new one once. */
export function RotateKey({ rotated: { id, name }, onClose }: { rotated: Key; onClose: () => void }) {
  const customerId = useCustomerId()
  const [grace, setGrace] = useState('86400')
  const [secret, setSecret] = useState<string | null>(null)
  const rotate = useWrite<number, { key: string }>(
    grace_seconds => ({ method: 'POST', path: `customers/${customerId}/keys/${id}/rotate`, body: { grace_seconds } }),
    { areas: ['keys', 'key-spend'], onDone: ({ key }) => setSecret(key), showsError: true },
  )
  if (secret !== null) return <KeySecret title={texts.newKeyOf(name)} secret={secret} onClose={onClose} />
  return (
    <FormDialog
      title={texts.rotateTitle(name)}
      action={texts.rotateAction}
      sending={rotate}
      onSubmit={() => rotate.mutate(Number(grace))}
      onClose={onClose}
    >
      <p>{texts.rotateText}</p>
      <Select
        label={texts.grace}
        data={[...texts.graces]}
        value={grace}
        onChange={value => setGrace(value ?? grace)}
        allowDeselect={false}
        data-autofocus
      />
    </FormDialog>
  )
}
