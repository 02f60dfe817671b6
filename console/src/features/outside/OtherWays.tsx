import { t } from '@lingui/core/macro'
import { Button } from '@mantine/core'
import { useMutation, useQuery } from '@tanstack/react-query'
import { askForPasskey } from '../../api/passkeys.ts'
import { consoleConfigQuery } from '../../api/queries.ts'
import { FormProblem } from '../../parts/FormProblem.tsx'
import { KeyIcon } from '../../parts/icons.tsx'
import styles from './outside.module.css'
import { ServiceButtons } from './ServiceButtons.tsx'
import { useEntry } from './use-entry.ts'

/** Signs in with a passkey, or at another service. Shows nothing where there is neither. */
export function OtherWays() {
  const { data: config } = useQuery(consoleConfigQuery)
  const entry = useEntry('passkeys/sign-in')
  const passkey = useMutation({
    mutationFn: async () => entry.mutateAsync({ passkey: await askForPasskey('passkeys/sign-in/start') }),
  })
  const providers = config?.oidc_providers ?? []
  if (config === undefined || (!config.has_passkeys && providers.length === 0)) return null
  return (
    <>
      <div className={styles.or}>{t`or`}</div>
      <div className={styles.form}>
        {config.has_passkeys && (
          <Button
            variant="default"
            leftSection={<KeyIcon />}
            loading={passkey.isPending}
            onClick={() => passkey.mutate()}
          >{t`Sign in with a passkey`}</Button>
        )}
        <FormProblem error={passkey.error} />
        <ServiceButtons action={t`Sign in`} />
      </div>
    </>
  )
}
