/**
 * A screen that the build prepares: the gateway's page for this address already names its files and shows its frame.
 */
export interface ScreenPage {
  /** The path of the route in router.tsx. */
  readonly path: string
  /** The modules that draw it, below `src/`. */
  readonly modules: readonly string[]
  /** The title until the data is there. Null: a page without a frame. */
  readonly title: string | null
}

type Screen = Omit<ScreenPage, 'path'>

const screen = (title: string | null, ...modules: string[]): Screen => ({ title, modules })
const hoster = (title: string, module: string) => screen(title, 'shell/HosterShell.tsx', `features/hoster/${module}`)
const operator = (title: string, module: string) =>
  screen(title, 'shell/OperatorShell.tsx', `features/operator/${module}`)

const accountShell = 'shell/AccountShell.tsx'

/**
 * Every address of router.tsx: see render-frame.tsx. One without parameters stands before one with parameters that it
 * matches too.
 */
const screenOf = {
  '/': screen(null, 'features/outside/SignInPage.tsx'),
  '/sign-in': screen(null, 'features/outside/SignInPage.tsx'),
  '/welcome': screen(null, 'features/outside/Welcome.tsx'),
  '/invite': screen(null, 'features/outside/Invite.tsx'),
  '/sign-up': screen(null, 'features/outside/SignUp.tsx'),
  '/verify': screen(null, 'features/outside/Verify.tsx'),
  '/reset': screen(null, 'features/outside/Reset.tsx'),
  '/oidc': screen(null, 'features/outside/OidcReturn.tsx'),
  '/confirm-email': screen(null, 'features/outside/ConfirmEmail.tsx'),
  '/status': screen(null, 'features/status/Status.tsx'),
  '/c/$customerId': screen('Home', 'features/home/Home.tsx'),
  '/c/$customerId/usage': screen('Usage', 'features/usage/Usage.tsx'),
  '/c/$customerId/activity': screen('Activity', 'features/activity/Activity.tsx'),
  '/c/$customerId/activity/$requestId': screen(
    'Activity',
    'features/activity/Activity.tsx',
    'features/activity/Receipt.tsx',
  ),
  '/c/$customerId/keys': screen('Keys', 'features/keys/Keys.tsx'),
  '/c/$customerId/credits': screen('Credits', 'features/credits/Credits.tsx'),
  '/c/$customerId/models': screen('Models', 'features/models/Models.tsx'),
  '/c/$customerId/playground': screen('Playground', 'features/playground/Playground.tsx'),
  '/c/$customerId/settings': screen('Settings', 'features/settings/Settings.tsx'),
  '/c/$customerId/settings/$tab': screen('Settings', 'features/settings/Settings.tsx'),
  '/account': screen('Your account', accountShell, 'features/settings/YourAccount.tsx'),
  '/h/apply': screen('Become a hoster', accountShell, 'features/hoster/Apply.tsx'),
  '/h/$hosterId': hoster('Overview', 'Overview.tsx'),
  '/h/$hosterId/offers': hoster('Offers', 'Offers.tsx'),
  '/h/$hosterId/traffic': hoster('Traffic', 'Traffic.tsx'),
  '/h/$hosterId/trust': hoster('Trust', 'Trust.tsx'),
  '/h/$hosterId/earnings': hoster('Earnings', 'Earnings.tsx'),
  '/h/$hosterId/connect': hoster('Connect', 'Connect.tsx'),
  '/h/$hosterId/settings': hoster('Settings', 'HosterSettings.tsx'),
  '/operator': operator('Overview', 'Overview.tsx'),
  '/operator/customers': operator('Customers', 'Customers.tsx'),
  '/operator/customers/$customerId': operator('Customer', 'Customer.tsx'),
  '/operator/models': operator('Models', 'Models.tsx'),
  '/operator/prices': operator('Prices', 'Prices.tsx'),
  '/operator/providers': operator('Providers', 'Providers.tsx'),
  '/operator/hosters': operator('Hosters', 'Hosters.tsx'),
  '/operator/hosters/$hosterId': operator('Hoster', 'Hoster.tsx'),
  '/operator/payouts': operator('Payouts', 'Payouts.tsx'),
  '/operator/payouts/$batchId': operator('Batch of payouts', 'PayoutBatch.tsx'),
  '/operator/money': operator('Money', 'Money.tsx'),
  '/operator/requests': operator('Requests', 'Requests.tsx'),
  '/operator/usage': operator('Usage', 'Usage.tsx'),
  '/operator/log': operator('Log', 'Log.tsx'),
  '/operator/settings': operator('Settings', 'OperatorSettings.tsx'),
  '/operator/system': operator('System', 'System.tsx'),
  '/operator/people': operator('People', 'People.tsx'),
  '/operator/grants': operator('Grants', 'Grants.tsx'),
}

export type ScreenAddress = keyof typeof screenOf

export const screens: readonly ScreenPage[] = Object.entries(screenOf).map(([path, rest]) => ({ path, ...rest }))
