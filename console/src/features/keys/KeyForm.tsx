import { t } from '@lingui/core/macro'
import { Checkbox } from '@mantine/core'
import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import type { Key } from '#api/keys.ts'
import { keysQuery } from '../../api/queries.ts'
import { useWrite } from '../../api/use-write.ts'
import { FormDialog } from '../../parts/FormDialog.tsx'
import { type KeyField, KeyFields, type KeyInput, keyInputOf } from '../../parts/KeyFields.tsx'
import { useCustomerId } from '../../shell/use-session.ts'
import { keyTexts as texts } from './key-texts.ts'
import { ownKeyBody } from './own-key-body.ts'

/** Changes a key. */
export function KeyForm({ edited, focus, onClose }: { edited: Key; focus: KeyField; onClose: () => void }) {
  const customerId = useCustomerId()
  const [input, setInput] = useState<KeyInput>(() => keyInputOf(edited))
  const change = useWrite<KeyInput>(
    typed => ({ method: 'PATCH', path: `customers/${customerId}/keys/${edited.id}`, body: ownKeyBody(typed) }),
    { areas: ['keys', 'key-spend'], done: t`The key is changed.`, onDone: onClose, showsError: true },
  )
  return (
    <FormDialog
      title={t`Change ${edited.name}`}
      action={t`Save`}
      sending={change}
      onSubmit={() => change.mutate(input)}
      onClose={onClose}
    >
      <KeyFields input={input} focus={focus} isNewLimit={edited.limit_usd === null} onChange={setInput} />
      <ManageBox input={input} onChange={setInput} />
      <RecordBox input={input} onChange={setInput} />
    </FormDialog>
  )
}

/** Hidden while the operator does not allow it, unless the key has it from before. */
export function RecordBox({ input, onChange }: { input: KeyInput; onChange: (input: KeyInput) => void }) {
  const keys = useQuery(keysQuery(useCustomerId()))
  if (keys.data?.allows_content !== true && !input.records) return null
  return (
    <Checkbox
      label={texts.record}
      description={texts.recordText}
      checked={input.records}
      onChange={event => onChange({ ...input, records: event.currentTarget.checked })}
    />
  )
}

export function ManageBox({ input, onChange }: { input: KeyInput; onChange: (input: KeyInput) => void }) {
  return (
    <Checkbox
      label={t`May make and change keys`}
      description={t`A program with this key can make, change and delete all keys of this customer.`}
      checked={input.mayManage}
      onChange={event => onChange({ ...input, mayManage: event.currentTarget.checked })}
    />
  )
}
