import { t } from '@lingui/core/macro'
import { Checkbox, TextInput } from '@mantine/core'
import { useState } from 'react'
import { useWrite } from '../../api/use-write.ts'
import { FormDialog } from '../../parts/FormDialog.tsx'
import { Field } from '../../parts/FormFields.tsx'
import { SecretDialog } from '../../parts/SecretDialog.tsx'
import styles from './hoster.module.css'

const scopes = [
  { value: 'serve', label: t`serve`, description: t`Connects the agent.` },
  {
    value: 'manage',
    label: t`manage`,
    description: t`Changes models, prices, keys and the state, and reads everything.`,
  },
  { value: 'read', label: t`read`, description: t`Reads everything that belongs to the hoster.` },
]

/** Makes a key of a hoster, and shows it once. */
export function NewHosterKey({ hosterId, onClose }: { hosterId: string; onClose: () => void }) {
  const [name, setName] = useState('')
  const [chosen, setChosen] = useState<string[]>(['serve'])
  const [secret, setSecret] = useState<string | null>(null)
  const make = useWrite<void, { key: string }>(
    () => ({ method: 'POST', path: `hosters/${hosterId}/keys`, body: { name, scopes: chosen } }),
    { areas: ['hoster-keys'], onDone: ({ key }) => setSecret(key), showsError: true },
  )
  if (secret !== null) {
    return <SecretDialog title={t`The key ${name}`} secret={secret} onClose={onClose} />
  }
  return (
    <FormDialog
      title={t`Make a key`}
      action={t`Make the key`}
      sending={make}
      onSubmit={() => make.mutate()}
      onClose={onClose}
    >
      <Field name="name">
        <TextInput
          label={t`Name`}
          required
          maxLength={200}
          value={name}
          onChange={event => setName(event.currentTarget.value)}
          data-autofocus
        />
      </Field>
      <Checkbox.Group label={t`Scopes`} value={chosen} onChange={setChosen}>
        <div className={styles.wide} style={{ paddingTop: 8 }}>
          {scopes.map(scope => (
            <Checkbox key={scope.value} {...scope} />
          ))}
        </div>
      </Checkbox.Group>
    </FormDialog>
  )
}
