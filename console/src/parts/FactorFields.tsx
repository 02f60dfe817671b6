import { t } from '@lingui/core/macro'
import { Button } from '@mantine/core'
import { useMutation, useQuery } from '@tanstack/react-query'
import { askForPasskey } from '../api/passkeys.ts'
import { consoleConfigQuery } from '../api/queries.ts'
import { CodeField } from './CodeField.tsx'
import { FormProblem } from './FormProblem.tsx'

/** Asks for the second factor: a code, or a passkey where the browser has them. */
export function FactorFields({
  code,
  onCode,
  onPasskey,
  start = 'passkeys/sign-in/start',
}: {
  code: string
  onCode: (code: string) => void
  /** Sends the form with the passkey. */
  onPasskey: (passkey: unknown) => void
  start?: Parameters<typeof askForPasskey>[0]
}) {
  const { data: config } = useQuery(consoleConfigQuery)
  const passkey = useMutation({ mutationFn: () => askForPasskey(start), onSuccess: onPasskey })
  return (
    <>
      {config?.has_passkeys && (
        <Button
          variant="default"
          loading={passkey.isPending}
          onClick={() => passkey.mutate()}
        >{t`Use a passkey`}</Button>
      )}
      <FormProblem error={passkey.error} />
      <CodeField value={code} onChange={onCode} />
    </>
  )
}
