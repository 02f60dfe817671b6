import {
  createRootRoute,
  createRoute,
  createRouter,
  type LinkProps,
  lazyRouteComponent,
  Outlet,
  redirect,
} from '@tanstack/react-router'
import { fromGateway, onNavigation } from './api/gateway-link.ts'
import type { ActivitySearch } from './features/activity/activity-search.ts'
import { readActivitySearch } from './features/activity/activity-search.ts'
import { readCreditsSearch } from './features/credits/credits-search.ts'
import { readDaysSearch } from './features/hoster/days-search.ts'
import { readKeysSearch } from './features/keys/keys-search.ts'
import {
  readCustomerSearch,
  readOperatorUsageSearch,
  readRequestLogSearch,
  readSupplySearch,
} from './features/operator/operator-search.ts'
import { readPlaygroundSearch } from './features/playground/playground-search.ts'
import { readUsageSearch } from './features/usage/usage-search.ts'
import { CustomerShell } from './shell/CustomerShell.tsx'
import { NotFound } from './shell/NotFound.tsx'
import { RouteProblem } from './shell/RouteProblem.tsx'

// Each screen is a file of its own that loads when it is opened. A screen knows its address only from here.

/** A screen that loads when it is opened. */
function screen<Module extends Record<string, unknown>, Name extends keyof Module & string>(
  load: () => Promise<Module>,
  name: Name,
) {
  return lazyRouteComponent(fromGateway(load), name)
}

const root = createRootRoute({ component: Outlet, notFoundComponent: NotFound, errorComponent: RouteProblem })

const outside = [
  createRoute({
    getParentRoute: () => root,
    path: '/',
    component: screen(() => import('./features/outside/SignInPage.tsx'), 'SignInPage'),
  }),
  createRoute({
    getParentRoute: () => root,
    path: '/sign-in',
    component: screen(() => import('./features/outside/SignInPage.tsx'), 'SignInPage'),
  }),
  createRoute({
    getParentRoute: () => root,
    path: '/welcome',
    component: screen(() => import('./features/outside/Welcome.tsx'), 'Welcome'),
  }),
  createRoute({
    getParentRoute: () => root,
    path: '/invite',
    component: screen(() => import('./features/outside/Invite.tsx'), 'Invite'),
  }),
  createRoute({
    getParentRoute: () => root,
    path: '/sign-up',
    component: screen(() => import('./features/outside/SignUp.tsx'), 'SignUp'),
  }),
  createRoute({
    getParentRoute: () => root,
    path: '/verify',
    component: screen(() => import('./features/outside/Verify.tsx'), 'Verify'),
  }),
  createRoute({
    getParentRoute: () => root,
    path: '/reset',
    component: screen(() => import('./features/outside/Reset.tsx'), 'Reset'),
  }),
  createRoute({
    getParentRoute: () => root,
    path: '/oidc',
    component: screen(() => import('./features/outside/OidcReturn.tsx'), 'OidcReturn'),
  }),
  createRoute({
    getParentRoute: () => root,
    path: '/confirm-email',
    component: screen(() => import('./features/outside/ConfirmEmail.tsx'), 'ConfirmEmail'),
  }),
  createRoute({
    getParentRoute: () => root,
    path: '/status',
    component: screen(() => import('./features/status/Status.tsx'), 'Status'),
  }),
] as const

export const customerRoute = createRoute({
  getParentRoute: () => root,
  path: '/c/$customerId',
  component: CustomerShell,
})

const activityRoute = createRoute({
  getParentRoute: () => customerRoute,
  path: '/activity',
  validateSearch: (search: Record<string, unknown>): ActivitySearch => readActivitySearch(search),
  component: screen(() => import('./features/activity/Activity.tsx'), 'Activity'),
})

// Not written inside of `addChildren`: its address would be of the type any, and with it those of all links.
const receiptRoute = createRoute({
  getParentRoute: () => activityRoute,
  path: '/$requestId',
  component: screen(() => import('./features/activity/Receipt.tsx'), 'Receipt'),
})

const customerScreens = [
  createRoute({
    getParentRoute: () => customerRoute,
    path: '/',
    component: screen(() => import('./features/home/Home.tsx'), 'Home'),
  }),
  createRoute({
    getParentRoute: () => customerRoute,
    path: '/usage',
    validateSearch: readUsageSearch,
    component: screen(() => import('./features/usage/Usage.tsx'), 'Usage'),
  }),
  activityRoute.addChildren([receiptRoute]),
  createRoute({
    getParentRoute: () => customerRoute,
    path: '/keys',
    validateSearch: readKeysSearch,
    component: screen(() => import('./features/keys/Keys.tsx'), 'Keys'),
  }),
  createRoute({
    getParentRoute: () => customerRoute,
    path: '/credits',
    validateSearch: readCreditsSearch,
    component: screen(() => import('./features/credits/Credits.tsx'), 'Credits'),
  }),
  createRoute({
    getParentRoute: () => customerRoute,
    path: '/models',
    component: screen(() => import('./features/models/Models.tsx'), 'Models'),
  }),
  createRoute({
    getParentRoute: () => customerRoute,
    path: '/playground',
    validateSearch: readPlaygroundSearch,
    // A talk is of one customer.
    remountDeps: ({ params }) => params.customerId,
    component: screen(() => import('./features/playground/Playground.tsx'), 'Playground'),
  }),
  createRoute({
    getParentRoute: () => customerRoute,
    path: '/settings',
    beforeLoad: ({ params, location }) => {
      if (/\/settings\/?$/.test(location.pathname))
        throw redirect({ to: '/c/$customerId/settings/$tab', params: { ...params, tab: 'account' } })
    },
  }),
  createRoute({
    getParentRoute: () => customerRoute,
    path: '/settings/$tab',
    component: screen(() => import('./features/settings/Settings.tsx'), 'Settings'),
  }),
] as const

const accountRoute = createRoute({
  getParentRoute: () => root,
  path: '/account',
  component: screen(() => import('./shell/AccountShell.tsx'), 'AccountShell'),
})

const yourAccountRoute = createRoute({
  getParentRoute: () => accountRoute,
  path: '/',
  component: screen(() => import('./features/settings/YourAccount.tsx'), 'YourAccount'),
})

const firstFactorRoute = createRoute({
  getParentRoute: () => accountRoute,
  path: '/second-factor',
  component: screen(() => import('./features/settings/FirstFactor.tsx'), 'FirstFactor'),
})

const applyFrame = createRoute({
  getParentRoute: () => root,
  path: '/h/apply',
  component: screen(() => import('./shell/AccountShell.tsx'), 'AccountShell'),
})

const applyRoute = createRoute({
  getParentRoute: () => applyFrame,
  path: '/',
  component: screen(() => import('./features/hoster/Apply.tsx'), 'Apply'),
})

const hosterRoute = createRoute({
  getParentRoute: () => root,
  path: '/h/$hosterId',
  component: screen(() => import('./shell/HosterShell.tsx'), 'HosterShell'),
})

const hosterScreens = [
  createRoute({
    getParentRoute: () => hosterRoute,
    path: '/',
    component: screen(() => import('./features/hoster/Overview.tsx'), 'Overview'),
  }),
  createRoute({
    getParentRoute: () => hosterRoute,
    path: '/offers',
    component: screen(() => import('./features/hoster/Offers.tsx'), 'Offers'),
  }),
  createRoute({
    getParentRoute: () => hosterRoute,
    path: '/traffic',
    validateSearch: readDaysSearch,
    component: screen(() => import('./features/hoster/Traffic.tsx'), 'Traffic'),
  }),
  createRoute({
    getParentRoute: () => hosterRoute,
    path: '/trust',
    component: screen(() => import('./features/hoster/Trust.tsx'), 'Trust'),
  }),
  createRoute({
    getParentRoute: () => hosterRoute,
    path: '/earnings',
    validateSearch: readDaysSearch,
    component: screen(() => import('./features/hoster/Earnings.tsx'), 'Earnings'),
  }),
  createRoute({
    getParentRoute: () => hosterRoute,
    path: '/connect',
    component: screen(() => import('./features/hoster/Connect.tsx'), 'Connect'),
  }),
  createRoute({
    getParentRoute: () => hosterRoute,
    path: '/settings',
    component: screen(() => import('./features/hoster/HosterSettings.tsx'), 'HosterSettings'),
  }),
] as const

const operatorRoute = createRoute({
  getParentRoute: () => root,
  path: '/operator',
  component: screen(() => import('./shell/OperatorShell.tsx'), 'OperatorShell'),
})

const operatorRequestsRoute = createRoute({
  getParentRoute: () => operatorRoute,
  path: '/requests',
  validateSearch: readRequestLogSearch,
  component: screen(() => import('./features/operator/Requests.tsx'), 'Requests'),
})

const operatorReceiptRoute = createRoute({
  getParentRoute: () => operatorRequestsRoute,
  path: '/$requestId',
  component: screen(() => import('./features/operator/OperatorReceipt.tsx'), 'OperatorReceipt'),
})

const operatorScreens = [
  createRoute({
    getParentRoute: () => operatorRoute,
    path: '/',
    component: screen(() => import('./features/operator/Overview.tsx'), 'Overview'),
  }),
  createRoute({
    getParentRoute: () => operatorRoute,
    path: '/customers',
    component: screen(() => import('./features/operator/Customers.tsx'), 'Customers'),
  }),
  createRoute({
    getParentRoute: () => operatorRoute,
    path: '/customers/$customerId',
    validateSearch: readCustomerSearch,
    component: screen(() => import('./features/operator/Customer.tsx'), 'Customer'),
  }),
  createRoute({
    getParentRoute: () => operatorRoute,
    path: '/prices',
    component: screen(() => import('./features/operator/Prices.tsx'), 'Prices'),
  }),
  createRoute({
    getParentRoute: () => operatorRoute,
    path: '/providers',
    component: screen(() => import('./features/operator/Providers.tsx'), 'Providers'),
  }),
  createRoute({
    getParentRoute: () => operatorRoute,
    path: '/settings',
    component: screen(() => import('./features/operator/OperatorSettings.tsx'), 'OperatorSettings'),
  }),
  createRoute({
    getParentRoute: () => operatorRoute,
    path: '/models',
    validateSearch: readSupplySearch,
    component: screen(() => import('./features/operator/Models.tsx'), 'Models'),
  }),
  createRoute({
    getParentRoute: () => operatorRoute,
    path: '/hosters',
    component: screen(() => import('./features/operator/Hosters.tsx'), 'Hosters'),
  }),
  createRoute({
    getParentRoute: () => operatorRoute,
    path: '/hosters/$hosterId',
    component: screen(() => import('./features/operator/Hoster.tsx'), 'Hoster'),
  }),
  createRoute({
    getParentRoute: () => operatorRoute,
    path: '/payouts',
    component: screen(() => import('./features/operator/Payouts.tsx'), 'Payouts'),
  }),
  createRoute({
    getParentRoute: () => operatorRoute,
    path: '/payouts/$batchId',
    component: screen(() => import('./features/operator/PayoutBatch.tsx'), 'PayoutBatch'),
  }),
  createRoute({
    getParentRoute: () => operatorRoute,
    path: '/money',
    component: screen(() => import('./features/operator/Money.tsx'), 'Money'),
  }),
  operatorRequestsRoute.addChildren([operatorReceiptRoute]),
  createRoute({
    getParentRoute: () => operatorRoute,
    path: '/usage',
    validateSearch: readOperatorUsageSearch,
    component: screen(() => import('./features/operator/Usage.tsx'), 'Usage'),
  }),
  createRoute({
    getParentRoute: () => operatorRoute,
    path: '/log',
    component: screen(() => import('./features/operator/Log.tsx'), 'Log'),
  }),
  createRoute({
    getParentRoute: () => operatorRoute,
    path: '/system',
    component: screen(() => import('./features/operator/System.tsx'), 'System'),
  }),
  createRoute({
    getParentRoute: () => operatorRoute,
    path: '/people',
    component: screen(() => import('./features/operator/People.tsx'), 'People'),
  }),
  createRoute({
    getParentRoute: () => operatorRoute,
    path: '/grants',
    component: screen(() => import('./features/operator/Grants.tsx'), 'Grants'),
  }),
] as const

export const router = createRouter({
  routeTree: root.addChildren([
    ...outside,
    customerRoute.addChildren([...customerScreens]),
    accountRoute.addChildren([yourAccountRoute, firstFactorRoute]),
    applyFrame.addChildren([applyRoute]),
    hosterRoute.addChildren([...hosterScreens]),
    operatorRoute.addChildren([...operatorScreens]),
  ]),
  defaultPreload: 'intent',
  // Inside of the frame, which stays.
  defaultErrorComponent: RouteProblem,
  scrollRestoration: true,
})

router.subscribe('onBeforeNavigate', ({ pathChanged }) => {
  if (pathChanged) void onNavigation()
})

declare module '@tanstack/react-router' {
  interface Register {
    router: typeof router
  }
}

// Fails to compile when addresses lose their types. A screen that was created inside `addChildren` of another screen made all of them
// `any`, and no link was checked.
false satisfies 0 extends 1 & LinkProps['to'] ? true : false
