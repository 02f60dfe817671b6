import { t } from '@lingui/core/macro'
import { Trans } from '@lingui/react/macro'
import { Button, PasswordInput, TextInput } from '@mantine/core'
import { useQuery } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { consoleConfigQuery } from '../../api/queries.ts'
import { needsCode, request } from '../../api/request.ts'
import { FactorFields } from '../../parts/FactorFields.tsx'
import { FormProblem } from '../../parts/FormProblem.tsx'
import { codeText } from '../../texts/code-text.ts'
import { LinkLoaded } from './LinkLoaded.tsx'
import { OutsideCard } from './OutsideCard.tsx'
import styles from './outside.module.css'
import { ServiceButtons } from './ServiceButtons.tsx'
import { useEntry } from './use-entry.ts'
import { useLinkSecret } from './use-link-secret.ts'

interface Invitation {
  readonly email: string
  /** Null: the invitation leads to a hoster, or to the operators of the gateway. */
  readonly customer_email: string | null
  readonly hoster: { readonly id: string; readonly name: string } | null
  readonly role: string
  /** Null: the server does not say, because the link was not mailed. */
  readonly has_password: boolean | null
}

/** Where an invitation leads: a new person sets a password, others type theirs. */
export function Invite() {
  const token = useLinkSecret()
  const invitation = useQuery({
    queryKey: ['invite', token],
    queryFn: () => request<Invitation>('POST', 'invite', { body: { token } }),
    retry: false,
    enabled: token !== '',
  })
  return (
    <OutsideCard title={t`You are invited`}>
      <LinkLoaded token={token} query={invitation}>
        {shown => <JoinForm token={token} invitation={shown} />}
      </LinkLoaded>
    </OutsideCard>
  )
}

function JoinForm({ token, invitation }: { token: string; invitation: Invitation }) {
  const { email, customer_email, hoster, role, has_password: isKnown } = invitation
  const navigate = useNavigate()
  const { data: config } = useQuery(consoleConfigQuery)
  const hasServices = (config?.oidc_providers ?? []).length > 0
  const [name, setName] = useState('')
  const [password, setPassword] = useState('')
  const [code, setCode] = useState('')
  const [isCodeAsked, setCodeAsked] = useState(false)
  const isToInstallation = customer_email === null && hoster === null
  const entry = useEntry('join', ({ memberships }) => {
    const joined = memberships.find(each => each.email === customer_email)?.customer_id
    if (hoster !== null) void navigate({ to: '/h/$hosterId', params: { hosterId: hoster.id }, replace: true })
    // A person with several customers would land in another one.
    else if (joined !== undefined)
      void navigate({ to: '/c/$customerId', params: { customerId: joined }, replace: true })
    else void navigate({ to: isToInstallation ? '/account/second-factor' : '/', replace: true })
  })
  if (needsCode(entry.error) && !isCodeAsked) setCodeAsked(true)
  return (
    <form
      className={styles.form}
      onSubmit={event => {
        event.preventDefault()
        entry.mutate({ token, password, ...(name.trim() !== '' && { name }), ...(isCodeAsked && { code }) })
      }}
    >
      {isToInstallation ? (
        <p>
          <Trans>
            You are to help run this gateway as {codeText(role)}. After you have joined, add a passkey or an
            authenticator app to your account. Then an operator gives you the role.
          </Trans>
        </p>
      ) : (
        <p>
          <Trans>
            You join{' '}
            {hoster === null ? (
              <b>{customer_email}</b>
            ) : (
              <Trans>
                the hoster <b>{hoster.name}</b>
              </Trans>
            )}{' '}
            as {codeText(role)}.
          </Trans>
        </p>
      )}
      <TextInput label={t`E-mail address`} value={email} readOnly autoComplete="username" />
      {isKnown !== true && (
        <TextInput
          label={t`Your name`}
          autoComplete="name"
          value={name}
          onChange={event => setName(event.currentTarget.value)}
        />
      )}
      <PasswordInput
        {...passwordField(isKnown)}
        required
        value={password}
        onChange={event => setPassword(event.currentTarget.value)}
      />
      {isCodeAsked && (
        <FactorFields code={code} onCode={setCode} onPasskey={passkey => entry.mutate({ token, password, passkey })} />
      )}
      <FormProblem error={needsCode(entry.error) ? null : entry.error} />
      <Button type="submit" loading={entry.isPending}>{t`Join`}</Button>
      {hasServices && (
        <>
          <div className={styles.or}>{t`or`}</div>
          <ServiceButtons action={t`Join`} invite={token} />
        </>
      )}
    </form>
  )
}

/** @param isKnown null: the person knows */
function passwordField(isKnown: boolean | null) {
  if (isKnown === true) return { label: t`Your password`, autoComplete: 'current-password' }
  const rule = t`At least 12 characters, such as four words.`
  if (isKnown === false) return { label: t`New password`, description: rule, autoComplete: 'new-password' }
  return {
    label: t`Password`,
    description: t`If you have an account here, its password. Otherwise a new one: ${rule.toLowerCase()}`,
    autoComplete: 'current-password',
  }
}
