import { t } from '@lingui/core/macro'
import { Trans } from '@lingui/react/macro'
import { Button, TextInput } from '@mantine/core'
import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { consoleConfigQuery } from '../../api/queries.ts'
import { useWrite } from '../../api/use-write.ts'
import { FormProblem } from '../../parts/FormProblem.tsx'
import { Panel } from '../../parts/Panel.tsx'
import { useSession } from '../../shell/use-session.ts'
import { codeText } from '../../texts/code-text.ts'
import styles from './settings.module.css'

/** The name and the e-mail address of the person. */
export function You() {
  const { person } = useSession()
  return (
    <Panel title={t`You`}>
      <div className={styles.block}>
        <NameForm before={person.name} />
        <EmailForm before={person.email} />
        {person.role !== null && (
          <p className={styles.hint}>
            <Trans>Your role on this installation: {codeText(person.role)}.</Trans>
          </p>
        )}
      </div>
    </Panel>
  )
}

function NameForm({ before }: { before: string }) {
  const [name, setName] = useState(before)
  const change = useWrite(() => ({ method: 'PATCH', path: 'person', body: { name: name.trim() } }), {
    areas: ['session', 'people'],
    done: t`The name is changed.`,
    showsError: true,
  })
  return (
    <form
      className={styles.line}
      onSubmit={event => {
        event.preventDefault()
        change.mutate()
      }}
    >
      <TextInput
        label={t`Name`}
        autoComplete="name"
        maxLength={200}
        value={name}
        onChange={event => setName(event.currentTarget.value)}
      />
      <Button
        type="submit"
        variant="default"
        loading={change.isPending}
        disabled={name.trim() === before}
      >{t`Change the name`}</Button>
      <FormProblem error={change.error} />
    </form>
  )
}

function EmailForm({ before }: { before: string }) {
  const { data: config } = useQuery(consoleConfigQuery)
  const [email, setEmail] = useState(before)
  const [sentTo, setSentTo] = useState<string | null>(null)
  const change = useWrite(() => ({ method: 'POST', path: 'person/email', body: { email } }), {
    areas: [],
    onDone: () => setSentTo(email),
    showsError: true,
  })
  const hasMail = config?.has_mail !== false
  return (
    <form
      className={styles.line}
      onSubmit={event => {
        event.preventDefault()
        change.mutate()
      }}
    >
      <TextInput
        label={t`E-mail address`}
        description={hasMail ? undefined : t`This server sends no mail, so the address cannot be changed here.`}
        type="email"
        autoComplete="email"
        required={hasMail}
        disabled={!hasMail}
        value={email}
        onChange={event => setEmail(event.currentTarget.value)}
      />
      {hasMail && (
        <Button
          type="submit"
          variant="default"
          loading={change.isPending}
          disabled={email.trim().toLowerCase() === before.toLowerCase()}
        >{t`Change the address`}</Button>
      )}
      {sentTo !== null && (
        <p role="status">
          <Trans>
            A mail to {sentTo} is on its way. Open its link within 24 hours. Until then your address stays as it is.
          </Trans>
        </p>
      )}
      <FormProblem error={change.error} />
    </form>
  )
}
