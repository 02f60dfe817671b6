import { Trans } from '@lingui/react/macro'
import { Button } from '@mantine/core'
import { useMutation, useQuery } from '@tanstack/react-query'
import { consoleConfigQuery } from '../../api/queries.ts'
import { visitProvider } from '../../api/visit-provider.ts'
import { FormProblem } from '../../parts/FormProblem.tsx'

/**
 * Buttons that lead to other services.
 *
 * @param props.action what the person does there, such as "Sign in"
 * @param props.invite the secret of an invitation that the person accepts
 */
export function ServiceButtons({ action, invite }: { action: string; invite?: string }) {
  const { data: config } = useQuery(consoleConfigQuery)
  const visit = useMutation({ mutationFn: (provider: string) => visitProvider('oidc/start', provider, invite) })
  return (
    <>
      {config?.oidc_providers.map(({ id, name }) => (
        <Button
          key={id}
          variant="default"
          loading={visit.isPending && visit.variables === id}
          onClick={() => visit.mutate(id)}
        >
          <Trans>
            {action} with {name}
          </Trans>
        </Button>
      ))}
      <FormProblem error={visit.error} />
    </>
  )
}
